"""Sampling settings lower acceptance or disable fast verification.

## What it sees
Acceptance fell while temperature, draft sampling, rejection method, thinking mode or the checkpoint's own sampling
defaults differ from the baseline's; or the engine says that verification is degraded for this sampling.

## Why it costs you
A drafter guesses the likeliest token. With temperature the target often says another one; greedy drafts are then
accepted less, and penalties or logit processors can switch the fast path off.

## How to confirm
Run the same prompts at temperature 0. If acceptance comes back it is this.

## What usually did it
Clients with temperature 0.6 to 1 against a baseline at 0; `generation_config.json` of a new checkpoint; a launcher that
leaves out `draft_sample_method`.

## When it is wrong
At temperature 0 the rejection method changes nothing. When the requests changed, the load did, and nothing on the host
is slower.
"""

from __future__ import annotations

import re

from dflash_doctor.model import Comparison, Drift, Evidence, Finding, Sample
from dflash_doctor.physics import TOKENS, tokens_per_step
from dflash_doctor.rules import asked
from dflash_doctor.rules.drafting import acceptance, drafting, fell, same_drafter
from dflash_doctor.rules.seen import new, proof, proofs, put_back

KEYS = ("spec.draft_sampling", "spec.sampling", "spec.rejection_method", "model.generation_config", "sampling.*")
TEMPERATURE = re.compile(r"temp(?:erature)?[ =:_]*(?P<t>\d+(?:\.\d+)?)", re.I)


def check(c: Comparison) -> Finding | None:
    now = drafting(c.now)
    if c.was is None or not now.on:
        return None
    warmer = _warmer(c)
    requests = asked.changed(c.now, c.was)
    changed: list[Drift] = list(c.drift(*KEYS))
    said = new(c, "spec.verification", "spec.prob_missing")
    if not (warmer or changed or said or requests):
        return None
    lower = fell(c) or _lower(c)
    if not lower or not same_drafter(c):
        return None
    cold = _temperatures(c.now.samples) in ({0.0}, set()) and not warmer
    if (
        changed
        and not requests
        and cold
        and not said
        and all("reject" in d.key or "generation" in d.key for d in changed)
        and warmer is None
    ):
        return None
    words = (
        f"requests ask for {', '.join(requests)}"
        if requests
        else f"temperature {warmer[0]:g} -> {warmer[1]:g}"
        if warmer
        else changed[0].words()
        if changed
        else "verification is degraded for this sampling"
    )
    return Finding(
        cause="",
        summary=f"{words}: drafts are accepted less ({_lengths(c)})",
        confidence=0.85 if warmer else 0.8 if requests else 0.7 if changed else 0.6,
        severity="warning",
        evidence=(
            *proofs(said[:2]),
            *proof(*changed, asked.asked(c.now)[1] if requests else None),
            *acceptance(c.now),
            *_rows(c.now.samples),
        ),
        effects=("spec.acceptance_collapse",),
        next_steps=(*(put_back(d) for d in changed), "run the same prompts at temperature 0 and compare acceptance"),
        touches=(TOKENS,),
    )


def _warmer(c: Comparison) -> tuple[float, float] | None:
    now, was = _temperatures(c.now.samples), _temperatures(c.was.samples if c.was else ())
    return (min(was), max(now)) if now and was and max(now) > max(was) else None


def _temperatures(samples: tuple[Sample, ...]) -> set[float]:
    found = set()
    for s in samples:
        t = s.conditions.get("temperature")
        if isinstance(t, (int, float)):
            found.add(float(t))
        elif s.workload and (m := TEMPERATURE.search(s.workload)):
            found.add(float(m["t"]))
    return found


def _lower(c: Comparison) -> bool:
    now, was = tokens_per_step(c.now), tokens_per_step(c.was) if c.was else None
    return now is not None and was is not None and now < 0.9 * was


def _lengths(c: Comparison) -> str:
    was = tokens_per_step(c.was) if c.was else None
    now = tokens_per_step(c.now)
    return f"{was:.2f} -> {now:.2f} tokens per step" if was and now else "fewer tokens per step"


def _rows(samples: tuple[Sample, ...]) -> tuple[Evidence, ...]:
    return tuple(s.evidence for s in samples if s.evidence and s.workload and TEMPERATURE.search(s.workload))[:1]
