"""GPUs of unequal speed share one tensor-parallel group; the slowest paces every step.

## What it sees
The cards of one group are different products, or one of equal cards runs at a clearly lower clock, power or link than
its siblings.

## Why it costs you
Every layer ends in an all-reduce at which the fast cards wait for the slow one; and the KV cache is sized by the
smallest.

## How to confirm
Run one small model on each card alone and compare.

## What usually did it
A mixed machine; a replaced card; one card in a bad slot or near a hot neighbour.

## When it is wrong
Unequal free memory of equal cards is a neighbour on one of them. The tuned server may have run on the same mix.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding, Snapshot
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.cards import loaded, numbers, reading_lines
from dflash_doctor.rules.own_cards import own_cards
from dflash_doctor.rules.seen import new, proofs

ODD = 0.85  # of the siblings' median clock


def check(c: Comparison) -> Finding | None:
    tp = c.now.value("parallel.tp", 1)
    if not isinstance(tp, int) or tp < 2:
        return None
    mixed = _names(c.now)
    odd = _odd(c.now)
    said = new(c, "host.mixed_gpus")
    if c.was is not None and len(_names(c.was)) > 1:
        mixed = set()
    if c.was is not None and _odd(c.was):
        odd = {}
    if len(mixed) < 2 and not odd and not said:
        return None
    words = (
        f"{' and '.join(sorted(mixed))} share one group"
        if len(mixed) > 1
        else ", ".join(f"GPU {i} runs at {v:.0f} MHz, its siblings at {m:.0f}" for i, (m, v) in odd.items())
    )
    return Finding(
        cause="",
        summary=f"the slowest card paces every step: {words or 'the engine sees different GPUs'}",
        confidence=0.75 if len(mixed) > 1 else 0.6,
        severity="warning",
        evidence=(
            *proofs(said),
            *reading_lines(
                loaded(c.now) or c.now.readings, "name", "clocks.sm", "power.draw", "pcie.link.width.current"
            ),
        ),
        next_steps=("choose equal cards with CUDA_VISIBLE_DEVICES", "look at the odd card's clock, power and slot"),
        touches=(STEP, PREFILL),
    )


def _names(s: Snapshot) -> set[str]:
    """Products of the engine's cards; of all the host has when nobody can say which are its own."""
    own = own_cards(s)
    return {
        str(r.values["name"])
        for r in s.readings
        if isinstance(r.values.get("name"), str) and (own is None or r.index in own)
    }


def _odd(s: Snapshot) -> dict[int, tuple[float, float]]:
    """Cards whose clock under load is clearly below their siblings': index -> (siblings' highest, own)."""
    own = own_cards(s)
    clocks = {i: v for i, v in numbers(loaded(s), "clocks.sm").items() if own is None or i in own}
    if len(clocks) < 2:
        return {}
    best = max(clocks.values())
    return {i: (best, v) for i, v in clocks.items() if v < ODD * best} if min(clocks.values()) < ODD * best else {}
