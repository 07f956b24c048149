"""Acceptance is fine on short contexts and falls with context length.

## What it sees
On this server, tokens per step fall clearly from intervals with few tokens in use to those with many, more than in the
baseline; or workloads with long inputs keep clearly fewer than short ones.

## Why it costs you
Long conversations and documents run at the speed of a poor drafter, while every short benchmark looks fine.

## How to confirm
Measure acceptance at 1k, 8k and 32k tokens with one prompt each, on one idle server.

## What usually did it
A drafter trained on short texts; its maximum length or RoPE scaling below the target's; a window that is not applied.

## When it is wrong
Different lengths often are different texts: code at 8k keeps more than a chat at 1k. A lost window has a name of its
own (`attention.window_ignored`).
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import TOKENS
from dflash_doctor.rules.drafting import acceptance, decays, short_and_long


def check(c: Comparison) -> Finding | None:
    fallen = decays(c)
    if fallen is None:
        return None
    short, long, shown = fallen
    was = short_and_long(c.was)
    return Finding(
        cause="",
        summary=f"tokens per step fall from {short:.2f} at short contexts to {long:.2f} at long ones",
        confidence=0.65 if was else 0.5,
        severity="warning",
        evidence=shown or acceptance(c.now),
        effects=("spec.acceptance_collapse",),
        next_steps=(
            "measure acceptance at 1k, 8k and 32k tokens",
            "use a drafter trained for long contexts, or switch drafting off above",
        ),
        touches=(TOKENS,),
    )
