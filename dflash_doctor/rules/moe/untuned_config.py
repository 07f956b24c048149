"""The fused mixture-of-experts kernel runs on default tile sizes for this GPU and shape.

## What it sees
The engine says that it found no tuned configuration file for this expert shape and GPU; the baseline had one, or there
is none to compare with and the load is a batch.

## Why it costs you
Default tiles cost about 10 % at large batches and in prefill, little or nothing at one request.

## How to confirm
Tune the shape with the engine's benchmark script, or copy a file of a sibling GPU, and run the same batch.

## What usually did it
A new GPU or a new release of Triton for which nobody has tuned; another tensor-parallel size, which changes the shape;
a configuration folder that is not mounted.

## When it is wrong
The warning is printed on many healthy servers. When the tuned server printed it too, it is the tuned state.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.seen import lost, new, proof, proofs


def check(c: Comparison) -> Finding | None:
    missing = new(c, "moe.config_missing")
    if not missing:
        return None
    if c.was is None:
        return Finding(
            cause="",
            summary="the mixture-of-experts kernel has no tuned tile sizes for this GPU and shape",
            confidence=0.3,
            severity="info",
            evidence=proofs(missing[:1]),
            next_steps=("tune the shape named in the line above if batches matter to you",),
            touches=(STEP, PREFILL),
        )
    had = bool(lost(c, "moe.config_used"))
    return Finding(
        cause="",
        summary="the mixture-of-experts kernel runs on default tile sizes; the tuned server had a file for this shape",
        confidence=0.85 if had else 0.6,
        severity="warning",
        evidence=(
            *proofs(missing[:1]),
            *proofs(c.was.find("moe.config_used")[:1]),
            *proof(*c.drift("env.VLLM_TUNED_CONFIG_FOLDER", "env.SGLANG_MOE_CONFIG_DIR")),
        ),
        next_steps=(
            "put the configuration file named in the tuned log back",
            "or tune this shape with the engine's own script",
        ),
        touches=(STEP, PREFILL),
    )
