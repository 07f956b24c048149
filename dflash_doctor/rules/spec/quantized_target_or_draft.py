"""Quantisation of the target, the drafter or the MTP head broke or lowered acceptance.

## What it sees
Acceptance fell with the same drafter while the quantisation of the target or of the drafter changed, or while the
target's checkpoint became a quantised or rotated build.

## Why it costs you
A head trained on the original reads hidden states of the quantised model. Plain 8-bit costs it little; rotations
(QuaRot, SpinQuant) and 4-bit can take everything.

## How to confirm
Serve the unquantised (or unrotated) target with the same drafter once.

## What usually did it
A smaller checkpoint of the same model; a drafter quantised by the target's method although it was trained in bf16; a
release that has no inverse rotation for this method.

## When it is wrong
When acceptance is low from a poor drafter on any target. Plain w8a8 and FP8 without rotation are not the reason.
"""

from __future__ import annotations

import re

from dflash_doctor.model import Comparison, Drift, Finding
from dflash_doctor.physics import TOKENS
from dflash_doctor.rules.drafting import acceptance, drafting, fell, same_drafter, shown
from dflash_doctor.rules.seen import new, proof, proofs, put_back

KEYS = ("model.quantization", "spec.draft_quantization", "model.path")
QUANTIZED = re.compile(
    r"quarot|spinquant|rotat|w\d+a\d+|autoround|int[48]|fp[48]|nvfp4|mxfp4|awq|gptq|gguf|q[2-8]_|4bit|8bit", re.I
)
ROTATED = re.compile(r"quarot|spinquant|rotat|hadamard", re.I)


def check(c: Comparison) -> Finding | None:
    now = drafting(c.now)
    if c.was is None or not now.on or not fell(c):
        return None
    own = now.method == "mtp" and drafting(c.was).method == "mtp"  # the head is a part of the checkpoint
    if not own and not same_drafter(c):
        return None
    changed = [d for d in c.drift(*KEYS) if _about_quantisation(d) or (own and _quantised_again(d))]
    said = new(c, "spec.draft_quant")
    if not changed and not said:
        return None
    rotated = any(ROTATED.search(str(d.now.value)) for d in changed if d.now) or any(
        ROTATED.search(s.evidence.text) for s in c.now.signals
    )
    dead = now.useless or (now.first or 1) < 0.05
    what = changed[0].words() if changed else "the drafter is quantised otherwise than the target"
    return Finding(
        cause="",
        summary=f"{what}; the same drafter now keeps {shown(now)}",
        confidence=0.9 if rotated else 0.8 if dead and changed else 0.65,
        severity="critical" if dead else "warning",
        evidence=(*proof(*changed), *proofs(said), *acceptance(c.now)),
        effects=("spec.acceptance_collapse", "spec.drafter_target_mismatch"),
        next_steps=(
            *(put_back(d) for d in changed[:1]),
            "serve the unquantised or unrotated target once with the same drafter",
        ),
        touches=(TOKENS,),
    )


def _quantised_again(d: Drift) -> bool:
    """Whether another quantised build of a checkpoint is served: what it quantises may differ under one name."""
    return (
        d.key == "model.path"
        and d.was is not None
        and d.now is not None
        and bool(QUANTIZED.search(str(d.was.value)) and QUANTIZED.search(str(d.now.value)))
    )


def _about_quantisation(d: Drift) -> bool:
    if d.was is None or d.now is None:
        return False
    if d.key != "model.path":
        return True
    was, now = set(QUANTIZED.findall(str(d.was.value).lower())), set(QUANTIZED.findall(str(d.now.value).lower()))
    return was != now
