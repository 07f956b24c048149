"""Grammar compilation or masking dominates structured output.

## What it sees
Requests with schemas, grammar lines or another grammar backend than the baseline's, with steps that became longer while
the GPU waits.

## Why it costs you
A new schema is compiled on the CPU (milliseconds to seconds), and every token needs a mask of the whole vocabulary
before it can be sampled; with speculation, one per drafted token.

## How to confirm
Run the same prompts without the schema; then with one schema again and again, so that its compilation is cached.

## What usually did it
A changed backend (`--structured-outputs-config`, `--grammar-backend`); many different schemas; a compile pool larger
than the CPUs it may use.

## When it is wrong
When the CPU is short of time for everything, the grammar is only who suffers first (`host.cpu_bound`).
"""

from __future__ import annotations

import re

from dflash_doctor.model import Comparison, Finding, Sample
from dflash_doctor.physics import STEP
from dflash_doctor.rules.cards import awake, loaded, numbers, reading_lines
from dflash_doctor.rules.seen import new_about, proof, proofs, put_back

SLOW = ("outlines", "lm-format-enforcer")  # build an automaton for each schema, in Python
STRUCTURED = re.compile(r"json|schema|grammar|structured|guided|tool", re.I)


def check(c: Comparison) -> Finding | None:
    changed = list(c.drift("grammar.backend", "grammar.*"))
    said = new_about(c, "structured_output_overhead")
    load = [s for s in c.now.samples if _structured(s)]
    idle = [v for v in numbers(loaded(c.now) or awake(c.now), "utilization.gpu").values() if v < 60]
    slow = c.now.settings.get("grammar.backend")
    slow = slow if slow is not None and load and str(slow.value) in SLOW else None
    if not changed and not said and not (load and idle):
        return None
    confidence = (
        0.3 + 0.3 * bool(changed) + 0.15 * bool(said) + 0.15 * bool(load) + 0.15 * bool(idle) + 0.2 * bool(slow)
    )
    words = changed[0].words() if changed else "structured output keeps the GPU waiting"
    return Finding(
        cause="",
        summary=words + (f" ({min(idle):.0f} % busy)" if idle else ""),
        confidence=min(confidence, 0.85),
        severity="warning",
        evidence=(
            *proofs(said[:2]),
            *proof(*changed, slow),
            *reading_lines(loaded(c.now) or awake(c.now), "utilization.gpu"),
        ),
        next_steps=(*(put_back(d) for d in changed), "run the same prompts without the schema and compare"),
        touches=(STEP,),
    )


def _structured(s: Sample) -> bool:
    return any(STRUCTURED.search(str(t)) for t in (s.workload, s.conditions.get("dataset")) if t)
