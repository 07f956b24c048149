"""The GPU's clock is lower under load than it should be.

## What it sees
The SM clock under load is well below the baseline's; or, without a baseline, below half of the maximum, or below what
the same card shows at idle, or held by an event reason (thermal, hardware slowdown, a clock lock).

## Why it costs you
Kernels, launches and all-reduces slow down in proportion to the clock. Decode of a big model is bound by memory and
loses less: at most the ratio of the clocks.

## How to confirm
`nvidia-smi --query-gpu=clocks.sm,clocks.max.sm,clocks_event_reasons.active,temperature.gpu --format=csv -l 1` while a
request runs. Idle clocks prove nothing.

## What usually did it
`nvidia-smi -lgc` or application clocks that stayed; heat; a power brake from the supply; a machine stuck in a low power
state (known on GB10: take AC power off for some minutes).

## When it is wrong
When the cap on power binds (`gpu.power_cap`), when the tuned server ran at the same clock, or when the reading was
taken at idle. P2 instead of P0 and a few per cent under the maximum are normal for CUDA work.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding, Impact
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.cards import fallen, idle, loaded, numbers, reading_lines, reasons

WELL_BELOW = 0.9  # clocks wander by a few per cent with temperature; a tenth is outside of that (nvml.md, thresholds)
STUCK = 0.5  # of the maximum: no normal state under load is that low
LOCKS = frozenset({"applications_clocks_setting", "display_clock_setting"})
HARD = frozenset({"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"})
KEYS = ("clocks.sm", "clocks.max.sm", "clocks_event_reasons.active", "temperature.gpu", "power.draw", "utilization.gpu")


def check(c: Comparison) -> Finding | None:
    busy = loaded(c.now)
    now, top = numbers(busy, "clocks.sm"), numbers(busy, "clocks.max.sm")
    if not now:
        return None
    fell = fallen(c, "clocks.sm", WELL_BELOW)
    rest = numbers(idle(c.now), "clocks.sm")
    stuck = {i: (top[i], v) for i, v in now.items() if i in top and v < STUCK * top[i]}
    drops = {i: (rest[i], v) for i, v in now.items() if i in rest and v < 0.7 * rest[i]}
    why = frozenset().union(*reasons(busy).values()) if busy else frozenset()
    tuned = numbers(loaded(c.was), "clocks.sm") if c.was else {}
    as_tuned = bool(tuned) and not fell
    locked = {i: (top[i], v) for i, v in now.items() if why & LOCKS and v < WELL_BELOW * top.get(i, v)}
    if as_tuned or not (fell or stuck or drops or locked or why & HARD):
        return None
    if "sw_power_cap" in why and not why & HARD and (not stuck or _lowered(c)):
        return None  # the cap is the cause, the clock its effect
    pairs = fell or stuck or drops or locked or {i: (top.get(i, v), v) for i, v in now.items()}
    was, at = min(pairs.values(), key=lambda p: p[1] / p[0])
    held = ", ".join(sorted(w.replace("_", " ") for w in why - {"gpu_idle"})) or "no event reason set"
    against = "the tuned state" if fell else "its maximum" if stuck or locked else "its idle clock"
    return Finding(
        cause="",
        summary=f"SM clock {at:.0f} MHz under load, {was:.0f} MHz is {against} ({held})",
        confidence=0.9 if fell else 0.8 if stuck or why & HARD else 0.6,
        severity="critical" if at < 0.7 * was else "warning",
        impact=Impact(at / was, bound=True),
        evidence=(*reading_lines(idle(c.now), "clocks.sm")[:1], *reading_lines(busy, *KEYS)),
        next_steps=_steps(why, stuck=bool(stuck or drops)),
        touches=(STEP, PREFILL),
    )


def _lowered(c: Comparison) -> bool:
    """Whether somebody set a power limit well below the card's own."""
    limit, usual = numbers(loaded(c.now), "power.limit"), numbers(loaded(c.now), "power.default_limit")
    return any(limit[i] < WELL_BELOW * usual[i] for i in limit if i in usual)


def _steps(why: frozenset[str], *, stuck: bool) -> tuple[str, ...]:
    if why & LOCKS:
        return ("nvidia-smi -rgc; nvidia-smi -rac  # give the clocks back", "look for who sets them at boot")
    if why & {"hw_thermal_slowdown", "sw_thermal_slowdown"}:
        return ("nvidia-smi -q -d TEMPERATURE  # then fans, dust, air flow", "ask whether a neighbour heats the rack")
    if "hw_power_brake_slowdown" in why:
        return ("check the power supply and its cables: something outside the GPU asks for less",)
    if stuck:
        return ("nvidia-smi -q -d CLOCK,PERFORMANCE", "shut down, take AC power off for some minutes, boot again")
    return ("nvidia-smi -q -d CLOCK,PERFORMANCE", "nvidia-smi -rgc  # if a lock is shown")
