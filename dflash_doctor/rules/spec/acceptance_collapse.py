"""Far fewer drafted tokens are accepted than when this server was tuned.

## What it sees
Tokens per step (acceptance length, bonus token counted) are lower than in the baseline under like conditions; without
a baseline, a drafter whose first position is hardly ever right.

## Why it costs you
A verify pass costs the same however few tokens survive it, so decode speed falls with tokens per step.

## How to confirm
Run the copy task (`dflash-doctor` load, ceiling of acceptance) and read the acceptance by position: near zero from the
first one means wiring, flat and low a poor drafter, good first and bad later a chain that loses its state.

## What usually did it
See the roots: drafter_target_mismatch, drafter_undertrained, sampling_mismatch, template_mismatch, window_ignored,
quantized_target_or_draft, draft_backend_mismatch, an engine release.

## When it is wrong
Acceptance depends on the text: another workload is another number, not a regression. Acceptance rates of different
draft lengths cannot be compared, lengths can. SGLang's accept length without drafting is 1.00.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import TOKENS
from dflash_doctor.rules.drafting import acceptance, drafting, fell, shown, worth_turning_off

LEFTOVER = True


def check(c: Comparison) -> Finding | None:
    now = drafting(c.now)
    if not now.on or now.length is None:
        return None
    broken = now.first is not None and now.first < 0.2 and now.length < 1.35
    if c.was is None and not broken:
        return None
    if c.was is not None and not fell(c):
        return None
    was = drafting(c.was) if c.was else None
    then = f", {was.length:.2f} when tuned" if was and was.length else ""
    step = worth_turning_off(now)
    return Finding(
        cause="",
        summary=f"drafts keep {shown(now)}{then}",
        confidence=0.75,
        severity="critical" if now.useless or broken else "warning",
        evidence=acceptance(c.now),
        next_steps=(step,) if step else ("compare acceptance by position with the baseline's",),
        touches=(TOKENS,),
    )
