"""A software power limit below the tuned one binds.

## What it sees
The enforced power limit is lower than in the baseline (or than the card's default), the draw under load stands at it,
and the clock is down or the software power cap is set as event reason.

## Why it costs you
The card lowers its clock until the draw fits. Prefill and big batches lose most; decode of one request, bound by
memory, little.

## How to confirm
`nvidia-smi --query-gpu=power.draw,power.limit,power.default_limit,clocks_event_reasons.active --format=csv -l 1` under
load; `nvidia-smi -pl <watts>` sets it back.

## What usually did it
A limit set by a start script, another card's limit after a move, a datacentre's power policy.

## When it is wrong
A limit that the draw does not reach costs nothing. A limit that was there when the server was tuned belongs to the
tuned state. Some cards (T4, L4, laptop parts) live at their cap.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.cards import loaded, numbers, reading_lines, reasons

REACHED = 0.95  # of the limit: the regulator holds the draw a few per cent under it
LOWER = 0.97  # limits are set in whole watts; less than three per cent apart is the same setting
KEYS = ("power.draw", "power.limit", "power.default_limit", "clocks.sm", "clocks_event_reasons.active")


def check(c: Comparison) -> Finding | None:
    busy = loaded(c.now)
    limit, draw = numbers(busy, "power.limit"), numbers(busy, "power.draw")
    tuned = numbers(loaded(c.was), "power.limit") if c.was else {}
    normal = tuned or numbers(busy, "power.default_limit")
    why = reasons(busy)
    capped = [
        i for i in limit
        if i in normal and limit[i] < LOWER * normal[i]
        and (draw.get(i, 0.0) >= REACHED * limit[i] or "sw_power_cap" in why.get(i, ()))
    ]  # fmt: skip
    if not capped:
        return None
    clock_was = numbers(loaded(c.was), "clocks.sm") if c.was else {}
    clock = numbers(busy, "clocks.sm")
    slower = [i for i in capped if i in clock_was and clock.get(i, clock_was[i]) < 0.95 * clock_was[i]]
    i = capped[0]
    against = "the tuned state" if tuned else "the card's default"
    cards = ", ".join(map(str, capped))
    return Finding(
        cause="",
        summary=f"power limit {limit[i]:.0f} W binds on GPU {cards}; {against} is {normal[i]:.0f} W",
        confidence=0.9 if slower else 0.75 if tuned else 0.55,
        severity="warning",
        evidence=reading_lines(busy, *KEYS),
        effects=("gpu.clock_throttle",),
        next_steps=tuple(f"nvidia-smi -i {j} -pl {normal[j]:.0f}" for j in capped),
        touches=(STEP, PREFILL),
    )
