"""The engine's version changed, and nothing else explains why it is slower.

## What it sees
Another version (or build) of the engine than in the baseline, a measured slow-down, and no fault that would explain it.

## Why it costs you
A release changes kernels, defaults and schedulers. Most are faster; some are not, for one model on one card.

## How to confirm
Start the old version with the same launch line on the same host. One restart settles it.

## What usually did it
An image tag that moved; a nightly build; a plug-in release beside the engine.

## When it is wrong
When the release only changed a default that is named here as a finding of its own, or when torch or a kernel library
came with it. Different engines are not versions of one another.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Drift, Finding
from dflash_doctor.physics import PREFILL, QUEUE, STEP, TOKENS
from dflash_doctor.rules.seen import proof, same_engine

LEFTOVER = True


def check(c: Comparison) -> Finding | None:
    if not same_engine(c):
        return None
    changed: list[Drift] = [*c.drift("engine.version"), *_plugins(c)]
    if not changed:
        return None
    first = changed[0]
    was, now = first.was.value if first.was else "?", first.now.value if first.now else "?"
    name = c.now.engine if first.key == "engine.version" else first.key.removeprefix("package.")
    return Finding(
        cause="",
        summary=f"{name} went from {was} to {now}",
        confidence=0.85,
        severity="warning",
        evidence=proof(*changed[:3], *c.now.find("engine.version")[:1]),
        next_steps=(f"start {name} {was} once with the same launch line and run the same load",),
        touches=(STEP, TOKENS, PREFILL, QUEUE),
    )


def _plugins(c: Comparison) -> list[Drift]:
    """Builds of the engine that only its package tells, and plug-ins that replace parts of it."""
    mine = c.now.engine or ""
    return [d for d in c.drift("package.*") if mine and mine in d.key.removeprefix("package.")]
