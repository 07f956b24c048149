"""The load differs from the baseline's: no regression is shown.

## What it sees
What was asked differs (lengths, concurrency, request rate, sampling, dataset) while the server's settings and its speed
under like conditions do not; or the two sides serve different models by design.

## Why it costs you
It does not: longer answers, more users or another text give other numbers on the same server.

## How to confirm
Run the baseline's own workload again; `dflash-doctor diagnose` brings it along.

## What usually did it
Another benchmark command, another data set, production traffic held against a benchmark, more users.

## When it is wrong
When the load changed and the server as well. Then compare only what both have in common.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from dflash_doctor.model import SPEED, Comparison, Finding, Sample, Snapshot
from dflash_doctor.rules.seen import proof

APART = 0.75  # lengths and crowds that differ by more than a quarter are another load
ASKED = (
    "input_tokens",
    "output_tokens",
    "mean_input_tokens",
    "mean_output_tokens",
    "request_rate",
    "dataset",
    "temperature",
    "logprobs",
    "n",
    "num_prompts",
)


def check(c: Comparison) -> Finding | None:
    if c.was is None or any(d.verdict == "worse" for d in c.deltas if d.metric in SPEED and d.concurrency is not None):
        return None
    here, there = _asked(c.now.samples), _asked(c.was.samples)
    changed = [f"{k}: {_words(there[k])} -> {_words(here[k])}" for k in ASKED if _other(there.get(k), here.get(k))]
    crowd = _crowd(c)
    workloads = {s.workload for s in c.now.samples if s.workload}, {s.workload for s in c.was.samples if s.workload}
    apart = bool(workloads[0] and workloads[1]) and not workloads[0] & workloads[1]
    if not changed and not apart and not crowd:
        return None
    words = "; ".join([*changed, *crowd]) or (
        f"workload {', '.join(sorted(workloads[0]))} here, {', '.join(sorted(workloads[1]))} in the baseline"
    )
    return Finding(
        cause="",
        summary=f"the load is not the baseline's ({words})",
        confidence=0.75 if changed else 0.65 if crowd else 0.55,
        severity="warning",
        evidence=proof(*(s.evidence for s in c.now.samples[:1])),
        next_steps=("run the baseline's workload: dflash-doctor diagnose HOST --baseline NAME",),
    )


def _asked(samples: Iterable[Sample]) -> dict[str, set[Any]]:
    found: dict[str, set[Any]] = {}
    for s in samples:
        for k in ASKED:
            if s.conditions.get(k) is not None:
                found.setdefault(k, set()).add(s.conditions[k])
    return found


def _other(was: set[Any] | None, now: set[Any] | None) -> bool:
    """Whether what was asked differs for certain: no value in common, and lengths by more than answers wander."""
    if not was or not now or was & now:
        return False
    numbers = [x for x in (*was, *now) if isinstance(x, (int, float)) and not isinstance(x, bool)]
    if len(numbers) < len(was) + len(now) or min(numbers) <= 0:
        return True
    return bool(max(now) < APART * min(was) or min(now) > max(was) / APART)


def _words(values: set[Any]) -> str:
    return ", ".join(sorted(map(str, values))[:4])


def _crowd(c: Comparison) -> list[str]:
    """Another number of requests at once, where the client's own numbers do not say how many there were."""
    now, was = _running(c.now), _running(c.was) if c.was else None
    loose = [d for d in c.deltas if d.metric in SPEED and d.concurrency is None and d.verdict in ("worse", "unsure")]
    if not now or not was or not loose or APART < now / was < 1 / APART:
        return []
    return [f"{was:.0f} -> {now:.0f} requests running at once"]


def _running(s: Snapshot) -> float | None:
    rows = [i.running for i in s.intervals if i.steady and i.running] or [i.running for i in s.intervals if i.running]
    return float(median(rows)) if rows else None
