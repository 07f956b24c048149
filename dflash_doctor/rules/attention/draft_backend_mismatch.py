"""The drafter runs on another attention backend than tuned, or on one that does not suit it.

## What it sees
The draft attention backend differs from the baseline's, or the engine says that it overrode or restricted it, while the
target's backend is the same.

## Why it costs you
A block drafter attends without a causal mask; a backend that lacks it takes a slow path or computes something else, and
then acceptance falls too.

## How to confirm
Set the drafter's backend explicitly (`attention_backend` in the speculative configuration,
`--speculative-draft-attention-backend`) to the tuned one.

## What usually did it
A flag for the target that is not passed on to the drafter; a release with another default; an unsupported head size.

## When it is wrong
vLLM prints no second line when the drafter takes the target's backend. A backend that differed when tuned is the tuned
state.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import STEP, TOKENS
from dflash_doctor.rules.drafting import drafting
from dflash_doctor.rules.seen import distinct, new, new_about, proof, proofs, put_back, same_engine


def check(c: Comparison) -> Finding | None:
    if not drafting(c.now).on:
        return None
    changed = list(c.drift("attention.draft_backend"))
    said = distinct([*new_about(c, "draft_backend_mismatch"), *new(c, "attn.draft_backend")])
    warned = [s for s in said if s.level in ("WARNING", "ERROR")]
    if not changed and not warned:
        return None
    if changed and not same_engine(c):
        return None
    words = changed[0].words() if changed else "the engine overrode the drafter's attention backend"
    return Finding(
        cause="",
        summary=words,
        confidence=0.7 if changed and warned else 0.6 if changed else 0.4,
        severity="warning",
        evidence=(*proofs(warned[:2]), *proof(*changed)),
        effects=("spec.acceptance_collapse",),
        next_steps=tuple(put_back(d) for d in changed) or ("set the drafter's attention backend explicitly",),
        touches=(STEP, TOKENS),
    )
