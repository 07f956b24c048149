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

from dflash_doctor.model import SPEED, Comparison, Finding, Sample
from dflash_doctor.rules.seen import proof

ASKED = ("input_tokens", "output_tokens", "request_rate", "dataset", "temperature", "logprobs", "n", "num_prompts")


def check(c: Comparison) -> Finding | None:
    if c.was is None:
        return None
    here, there = _asked(c.now.samples), _asked(c.was.samples)
    changed = [f"{k}: {there[k]} -> {here[k]}" for k in ASKED if k in here and k in there and here[k] != there[k]]
    like = [d for d in c.deltas if d.metric in SPEED]
    workloads = {s.workload for s in c.now.samples if s.workload}, {s.workload for s in c.was.samples if s.workload}
    apart = bool(workloads[0] and workloads[1]) and not workloads[0] & workloads[1]
    if not changed and not apart:
        return None
    if any(d.verdict == "worse" for d in like):
        return None
    words = (
        "; ".join(changed)
        or f"workload {', '.join(sorted(workloads[0]))} here, {', '.join(sorted(workloads[1]))} in the baseline"
    )
    return Finding(
        cause="",
        summary=f"the load is not the baseline's ({words})",
        confidence=0.75 if changed else 0.55,
        severity="warning",
        evidence=proof(*(s.evidence for s in c.now.samples[:1])),
        next_steps=("run the baseline's workload: dflash-doctor diagnose HOST --baseline NAME",),
    )


def _asked(samples: Iterable[Sample]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for s in samples:
        for k in ASKED:
            if s.conditions.get(k) is not None:
                found.setdefault(k, set()).add(f"{s.conditions[k]}")
    return {k: ", ".join(sorted(v)[:4]) for k, v in found.items()}
