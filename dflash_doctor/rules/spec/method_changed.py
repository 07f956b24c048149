"""Another speculative method runs than when this server was tuned.

## What it sees
Both sides draft, but by different methods (MTP then, DFlash now, say), or by the same one through another worker.

## Why it costs you
Methods differ in how many tokens they keep per step and in what a step costs; a drop-in replacement is rare.

## How to confirm
Put the old method back on this server and run the same load.

## What usually did it
Moving to another engine or release whose recipe names another method; trying a newer drafter.

## When it is wrong
A change of method that keeps as many tokens per step in the same time is no regression. When the new drafter is
broken or poor that is the cause, and the change of method only how it came.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import STEP, TOKENS
from dflash_doctor.rules.drafting import acceptance, drafting, shown
from dflash_doctor.rules.seen import proof, put_back, same_engine

# switches between two implementations of one method
WORKERS = ("env.SGLANG_ENABLE_SPEC_V2", "env.SGLANG_ENABLE_OVERLAP_PLAN_STREAM", "env.VLLM_USE_V2_MODEL_RUNNER")


def check(c: Comparison) -> Finding | None:
    if c.was is None:
        return None
    now, was = drafting(c.now), drafting(c.was)
    if now.method in (None, "none") or was.method in (None, "none"):
        return None
    if now.method == was.method:
        return _other_worker(c)
    broken = now.length is not None and now.length < 1.35 and (now.first or 0) < 0.3
    return Finding(
        cause="",
        summary=f"speculation runs by {now.method} ({shown(now)}); tuned was {was.method} ({shown(was)})",
        confidence=0.55 if broken else 0.9,
        severity="warning",
        evidence=(*proof(c.now.settings.get("spec.method"), c.was.settings.get("spec.method")), *acceptance(c.now)),
        effects=("spec.acceptance_collapse",),
        next_steps=(
            f"put speculation by {was.method} back" + (f" with {was.depth} drafted tokens" if was.depth else ""),
        ),
        touches=(TOKENS, STEP),
    )


def _other_worker(c: Comparison) -> Finding | None:
    """The same method through another implementation, which nobody asked for by name."""
    switched = [d for d in c.drift(*WORKERS) if d.now is not None]
    if not switched or not same_engine(c):
        return None
    return Finding(
        cause="",
        summary=f"the same method runs through another implementation ({switched[0].words()})",
        confidence=0.7,
        severity="warning",
        evidence=(*proof(*switched), *acceptance(c.now)),
        next_steps=tuple(put_back(d) for d in switched),
        touches=(STEP,),
    )
