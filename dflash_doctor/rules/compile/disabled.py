"""torch.compile's optimisations were on when tuned and are off now.

## What it sees
The compilation mode is lower than in the baseline, or the engine says that compilation is off, or fusions that depend
on it are dropped.

## Why it costs you
Without inductor small element-wise kernels are not fused: a few per cent to a quarter of a step, more on small models.

## How to confirm
Look for `torch.compile takes … s in total` in the tuned log and not in this one.

## What usually did it
`-O0`, `TORCH_COMPILE_DISABLE`, eager mode, a model without support, breakable graphs.

## When it is wrong
Eager mode switches compilation and graphs off together: then `cudagraph.disabled` is the larger half. SGLang does not
compile by default.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Drift, Finding
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.seen import new, others, proof, proofs, put_back, switched_off


def check(c: Comparison) -> Finding | None:
    if c.was is None:
        return None
    off = [d for d in c.drift("compile.mode") if d.was and d.now and d.now.value == "none" and d.was.value != "none"]
    said = new(c, "compile.off")
    parts = [d for d in others(c, "compile.*", but=("compile.mode",)) if switched_off(d)]
    if parts and not off and not said:
        return _without(parts)
    if not off and not (said and c.was.find("compile.took", "compile.cache_hit", "compile.cache_miss")):
        return None
    eager = c.now.value("cudagraph.mode") == "none" and c.was.value("cudagraph.mode") != "none"
    return Finding(
        cause="",
        summary="torch.compile is off; the tuned server had it" + (" (eager mode takes graphs along)" if eager else ""),
        confidence=0.4 if eager else 0.75,
        severity="warning",
        evidence=(*proofs(said[:2]), *proof(*off)),
        next_steps=("start without the flag or variable named above",),
        touches=(STEP, PREFILL),
    )


def _without(parts: list[Drift]) -> Finding:
    return Finding(
        cause="",
        summary=f"an optimisation of the compiler that the tuned server had is off: {parts[0].words()}",
        confidence=0.6,
        severity="warning",
        evidence=proof(*parts[:3]),
        next_steps=tuple(put_back(d) for d in parts[:3]),
        touches=(STEP, PREFILL),
    )
