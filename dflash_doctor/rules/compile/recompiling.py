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

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.seen import proofs

OFTEN = 5  # compiles while serving; a handful of shapes in the first minutes is normal


def check(c: Comparison) -> Finding | None:
    during = [s for s in c.now.about("jit_compile_during_serving") if s.level != "INFO" or s.count > 1]
    times = sum(s.count for s in during)
    before = sum(s.count for s in c.was.about("jit_compile_during_serving")) if c.was else 0
    if times < OFTEN or times <= 2 * before:
        return None
    return Finding(
        cause="",
        summary=f"kernels were compiled {times} times while requests were served",
        confidence=0.6 if c.slower else 0.4,
        severity="warning",
        evidence=proofs(during[:3]),
        next_steps=(
            "keep the compile caches on a volume that outlives the container",
            "warm the server up before measuring",
        ),
        touches=(STEP, PREFILL),
    )
