"""Whether the server was the same at the end of a load as at its beginning: the first prompts again, step times held.

On decode speed such a test would fire all the time: at 3 % of noise within a prompt the standard error of four prompts
is 2 % (MEASURING.md 4.4); the median gap between chunks has a half to one percent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from dflash_doctor.formats.load import Drift, Request

LEAST = 3  # prompts: fewer have no spread
SIZE, ERRORS = 0.02, 3.0  # of the step time; standard errors


def drift(first: Sequence[Request], again: Sequence[Request]) -> Drift | None:
    """From the same prompts of two rounds at one request at a time; None when too few have a step time on both."""
    steps: dict[str, float] = {}
    for r in again:
        if r.status == "ok" and r.chunk_gap_ms:
            steps.setdefault(r.prompt, r.chunk_gap_ms)
    pairs = [
        math.log(steps[r.prompt] / r.chunk_gap_ms)
        for r in first
        if r.status == "ok" and r.chunk_gap_ms and r.prompt in steps
    ]
    if len(pairs) < LEAST:
        return None
    change, error = fmean(pairs), stdev(pairs) / math.sqrt(len(pairs))
    found = abs(change) > SIZE and abs(change) > ERRORS * error
    return Drift(prompts=len(pairs), change=math.expm1(change), error=error, found=found)
