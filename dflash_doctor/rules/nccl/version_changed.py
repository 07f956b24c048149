"""Another NCCL version, with the slow-down in communication.

## What it sees
NCCL's version differs from the baseline's and communication itself was measured slower (nccl-tests, all-reduce lines),
or nothing else changed on a server that splits the model over GPUs.

## Why it costs you
Releases change algorithms, protocols and tuning tables; on one topology a collective can become many times slower.

## How to confirm
Run `all_reduce_perf` with both libraries (LD_LIBRARY_PATH or `VLLM_NCCL_SO_PATH`) at the message size of a decode step.

## What usually did it
A new torch wheel that brings another NCCL; an image rebuilt; a library path that points elsewhere.

## When it is wrong
With another torch or engine release NCCL comes along; unless communication was measured, those are as likely.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from dflash_doctor.model import Comparison, Finding, Snapshot
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.seen import proof, same_engine

KEYS = ("comm.nccl_version", "package.nvidia-nccl-cu12", "package.nvidia-nccl-cu13", "package.nvidia-nccl-cu11")


def check(c: Comparison) -> Finding | None:
    changed = list(c.drift(*KEYS))
    if not changed or c.was is None or (not same_engine(c) and _bandwidth(c) is None):
        return None
    ratio = _bandwidth(c)
    tp = c.now.value("parallel.tp", 1)
    others = c.drift("package.torch", "engine.version", "gpu.driver", "package.triton")
    if ratio is None and (not isinstance(tp, int) or tp < 2):
        return None
    slower = ratio is not None and ratio < 0.8
    confidence = 0.92 if slower else 0.15 if ratio is not None else 0.25 if others else 0.6
    return Finding(
        cause="",
        summary=changed[0].words().replace("comm.nccl_version", "NCCL")
        + (f"; all-reduce bandwidth is {ratio:.2f}x of what it was" if ratio is not None else ""),
        confidence=confidence,
        severity="critical" if slower else "warning",
        evidence=proof(*changed),
        next_steps=("run all_reduce_perf -b 8K -e 1M -f 2 with both libraries", "pin the NCCL of the tuned image"),
        touches=(STEP, PREFILL),
    )


def _bandwidth(c: Comparison) -> float | None:
    """Bus bandwidth of nccl-tests now over then, median over the message sizes both ran."""
    now, was = _rows(c.now), _rows(c.was) if c.was else {}
    ratios = [now[k] / was[k] for k in now if was.get(k)]
    return float(median(ratios)) if ratios else None


def _rows(s: Snapshot) -> dict[int, float]:
    rows = s.host.get("nccl_tests")
    found: dict[int, float] = {}
    for r in rows if isinstance(rows, (list, tuple)) else ():
        if (
            isinstance(r, Mapping)
            and isinstance(r.get("busbw"), (int, float))
            and isinstance(r.get("size"), (int, float))
        ):
            found[int(r["size"])] = float(r["busbw"])
    return found
