"""The drafter itself is poor: its guesses are bad from the first position on, with everything else in order.

## What it sees
Acceptance starts low (a tenth to a half at the first position) and falls smoothly; the drafter is not the one that the
baseline ran well, and nothing in the log says that it was loaded or wired wrongly.

## Why it costs you
Each step pays for drafting and verifying a whole block and keeps hardly more than the token it would have had anyway.

## How to confirm
Let another drafter of the same target run on the same server, or this one on text it was trained for. The model card
says whether a checkpoint is still in training.

## What usually did it
A checkpoint published while it trains; a drafter for another domain or another language; a short training run.

## When it is wrong
Wiring faults look alike from outside, but give nearly zero from the first position, or a cliff after it. The same
checkpoint that was good before has not become undertrained: look at what changed around it.
"""

from __future__ import annotations

from itertools import pairwise

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import TOKENS
from dflash_doctor.rules.drafting import (
    COPIES,
    WIRED_WRONGLY,
    acceptance,
    drafting,
    same_drafter,
    shown,
    worth_turning_off,
)
from dflash_doctor.rules.seen import proof

POOR = 0.6  # a trained head gets three first tokens out of four or more on ordinary text


def check(c: Comparison) -> Finding | None:
    now = drafting(c.now)
    if now.method in (None, "none", *COPIES) or now.first is None or not now.curve:
        return None
    if not WIRED_WRONGLY <= now.first < POOR or same_drafter(c) or not smooth(now.curve):
        return None
    if now.method == "mtp" and c.was is not None and drafting(c.was).method == "mtp":
        return None  # its head is a part of the checkpoint: what changed is the checkpoint
    if c.was is not None and (drafting(c.was).length or 1.0) <= (now.length or 1.0):
        return None
    step = worth_turning_off(now)
    method = f"speculation by {drafting(c.was).method} as tuned" if c.was and drafting(c.was).on else "another drafter"
    return Finding(
        cause="",
        summary=f"the drafter guesses badly from the first position on ({shown(now)}), smoothly: poor, not miswired",
        confidence=0.72 if now.first < 0.3 else 0.65,
        severity="critical" if now.first < 0.3 else "warning",
        evidence=(*acceptance(c.now), *proof(c.now.settings.get("spec.draft_model"))),
        effects=("spec.acceptance_collapse",),
        next_steps=(
            *((step,) if step else ()),
            f"try {method}",
            "read on the drafter's model card whether it is still in training",
        ),
        touches=(TOKENS,),
    )


def smooth(curve: tuple[float, ...]) -> bool:
    """Whether acceptance declines without a cliff: no position keeps under a tenth of a good one before it."""
    return all(b >= 0.1 * a for a, b in pairwise(curve) if a > 0.1)
