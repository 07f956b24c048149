"""Another mixture-of-experts kernel family runs than tuned.

## What it sees
The MoE backend that the engine says it uses differs from the baseline's, by flag, environment or a changed default.

## Why it costs you
Kernel families differ by tens of per cent per model and batch; each release prefers another one.

## How to confirm
Set the old one (`--moe-backend`, `--moe-runner-backend`) and run the same load.

## What usually did it
An upgrade that changed the default; an environment variable that was renamed; a missing library.

## When it is wrong
When the weights' quantisation changed, the backend had to. Another engine names its backends in its own way.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.seen import new, others, proof, proofs, put_back, same_engine


def check(c: Comparison) -> Finding | None:
    changed = [d for d in c.drift("moe.backend") if d.was is not None and d.now is not None]
    named = bool(changed)
    changed = changed or others(c, "moe.*")
    if not changed or not same_engine(c):
        return None
    by_default = not c.drift("env.VLLM_FLASHINFER_MOE_BACKEND") and "moe.backend" not in c.now.asked
    return Finding(
        cause="",
        summary=changed[0].words()
        + (" (nobody asked for it: a changed default)" if by_default and c.drift("engine.version") else ""),
        confidence=0.8 if named else 0.6,
        severity="warning",
        evidence=(*proof(*changed, changed[0].was), *proofs(new(c, "moe.backend", "moe.runner")[:1])),
        next_steps=tuple(put_back(d) for d in changed),
        touches=(STEP, PREFILL),
    )
