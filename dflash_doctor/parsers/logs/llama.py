"""llama.cpp servers: what a finished request says of its speed and its drafts.

slot print_timing: id  0 | task 402 | prompt eval time =   14231.20 ms / 21840 tokens (    0.65 ms per token, …)
slot print_timing: id  0 | task 402 |        eval time =   11294.10 ms /   600 tokens (   18.82 ms per token, …)
slot print_timing: id  0 | task 402 | draft acceptance rate = 0.31000 (  310 accepted /  1000 generated)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from dflash_doctor.model import Evidence, Sample
from dflash_doctor.parsers.logs.events import Event

TASK = re.compile(r"\btask (\d+)")


def samples(events: Iterable[Event], source: str) -> tuple[Sample, ...]:
    """Speed and acceptance per request, beside the size of its prompt: drafts fall with the context."""
    prompts: dict[str, float] = {}
    return tuple(s for e in events for s in _request(e, source, prompts))


def _request(e: Event, source: str, prompts: dict[str, float]) -> Iterator[Sample]:
    if e.id not in ("stats.request", "spec.request"):
        return
    task = TASK.search(e.record.body)
    name = task[1] if task else ""
    where = Evidence(source, e.record.text, e.number)
    if e.id == "spec.request":
        yield Sample("accept_rate", float(e.fields["rate"]), conditions=_asked(prompts.get(name)), evidence=where)
        return
    tokens, ms = float(e.fields["tokens"]), float(e.fields["ms"])
    prompt = e.fields["what"] == "prompt eval"
    if prompt:
        prompts[name] = tokens
    if tokens > 0 and ms > 0:
        metric = "prefill_tok_s" if prompt else "output_tok_s"
        yield Sample(metric, tokens / ms * 1000, conditions=_asked(prompts.get(name)), evidence=where)


def _asked(prompt: float | None) -> dict[str, Any]:
    """Requests with prompts of one size: of the same power of two."""
    if not prompt:
        return {"from": "log"}
    return {"from": "log", "input_tokens": 2 ** round(math.log2(prompt))}
