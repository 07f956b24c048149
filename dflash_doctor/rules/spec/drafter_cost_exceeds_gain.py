"""Acceptance is fine, but drafting and verifying cost more than the steps they save.

## What it sees
The baseline ran without speculation and was as fast or faster, at few requests, although more than one token is kept
per step now: the step takes longer by more than that.

## Why it costs you
Speculation pays above A = R: tokens per step must exceed the cost of a drafted step over a plain one. A serial drafter
adds one pass per token; under tensor parallelism each of its small passes pays two all-reduces per layer.

## How to confirm
Turn it off for one start and run the same load; or draft one token and see the step shrink.

## What usually did it
A separate draft model of some size; n-gram lookup on text that repeats nothing; a drafter split over many GPUs.

## When it is wrong
At many requests it is `spec.overloaded_batch`. When hardly anything is accepted the drafter is the fault, not its cost.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import STEP, headline
from dflash_doctor.rules.drafting import acceptance, drafting
from dflash_doctor.rules.seen import proof

FEW = 8


def check(c: Comparison) -> Finding | None:
    if c.was is None:
        return None
    now, was = drafting(c.now), drafting(c.was)
    if was.method not in (None, "none") or was.on or now.method in (None, "none"):
        return None
    if now.useless:
        return None  # a drafter that is never right has another fault
    speeds = [d for d in c.deltas if (d.concurrency or 1) <= FEW]
    lead = headline(speeds)
    if lead is None or lead.factor > 1.02:
        return None
    kept = f" although a step keeps {now.length:.2g} tokens" if now.length else ""
    grew = f": the step takes {now.length / lead.factor:.2g}x as long as a plain one" if now.length else ""
    # "no faster" is shown by a small difference, "slower" needs a large one
    confidence = 0.8 if lead.verdict == "worse" else 0.7
    return Finding(
        cause="",
        summary=f"with {now.method} the server gives {lead.factor:.2f}x of what it gave without{kept}{grew}",
        confidence=confidence,
        severity="warning",
        evidence=(*acceptance(c.now), *proof(lead, c.now.settings.get("spec.method"))),
        next_steps=(
            "turn speculation off, or draft fewer tokens",
            "use a head that drafts in one pass (EAGLE3, MTP, DFlash) or a drafter without tensor parallelism",
        ),
        touches=(STEP,),
        proven=True,  # no gain is the finding
    )
