"""Kernels are compiled or tuned while requests are being served.

## What it sees
The engine says that it compiles, JIT-builds or autotunes after it had begun to serve, again and again.

## Why it costs you
A compile takes 0.1 to 30 seconds, during which requests wait: stalls and long tails, not a lower steady speed.

## How to confirm
Hold the times of those lines against the stalls. They stop once every shape was seen, unless the cache is thrown away.

## What usually did it
A cache folder that does not outlive the container; dynamic shapes; a changed driver or library that makes every cached
kernel stale; warm-up switched off.

## When it is wrong
In the first minutes after a start it is normal, in the tuned server as well. Measure after warm-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from dflash_doctor.model import Comparison, Evidence, Finding, Interval, Signal, Snapshot
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.seen import proofs

FIRST = 2  # intervals of serving within which a server compiles what its warm-up left out
STALLS, HELD_UP = 2, 0.5  # that many intervals at under half of the usual speed right after a compile
OFTEN = 5  # compiles while serving; a handful of shapes in the first minutes is normal


def check(c: Comparison) -> Finding | None:
    during, times = _while_serving(c.now)
    _, before = _while_serving(c.was) if c.was else ((), 0)
    stalls = _stalls(c.now, during)
    if (times < OFTEN and len(stalls) < STALLS) or times <= 2 * before:
        return None
    return Finding(
        cause="",
        summary=f"kernels were compiled {times} times while requests were served"
        + (f"; {len(stalls)} of them held everybody up" if stalls else ""),
        confidence=0.85 if len(stalls) >= STALLS else 0.6 if c.slower else 0.4,
        severity="warning",
        evidence=(*proofs(during[:3]), *stalls[:2]),
        next_steps=(
            "keep the compile caches on a volume that outlives the container",
            "warm the server up before measuring",
        ),
        touches=(STEP, PREFILL),
    )


def _while_serving(s: Snapshot) -> tuple[list[Signal], int]:
    """Compiles after the server was ready, and how many there were."""
    opened = s.find("engine.ready", "engine.http_ready")
    ready = max((x.evidence.line or 0 for x in opened), default=0)
    found = [x for x in s.about("jit_compile_during_serving") if not _warms_up(x, s.intervals, ready)]
    late = [x for x in found if x.level != "INFO" or x.count > 1 or 0 < ready < (x.evidence.line or 0)]
    return late, sum(x.count for x in late)


def _warms_up(x: Signal, intervals: Sequence[Interval], ready: int) -> bool:
    """Whether it is one of the first compiles after a start that nothing followed but steady serving."""
    at = x.evidence.line or 0
    before = [i for i in intervals if ready < i.line < at]
    after = [i for i in intervals if i.line > max(at, x.last_line or 0)]
    return len(before) < FIRST and len(after) > len(before)


def _stalls(s: Snapshot, during: list[Signal]) -> tuple[Evidence, ...]:
    """Decode intervals right after a compile whose speed is far below that of the others."""
    rows = [i for i in s.intervals if i.kind != "prefill" and i.generation_tok_s]
    if len(rows) < 4:
        return ()
    usual = median(i.generation_tok_s or 0 for i in rows)
    found = []
    for x in during:
        after = next((i for i in rows if i.line > (x.evidence.line or 0)), None)
        if after is not None and (after.generation_tok_s or 0) < HELD_UP * usual:
            found.append(Evidence(x.evidence.source, after.text, after.line))
    return tuple(dict.fromkeys(found))
