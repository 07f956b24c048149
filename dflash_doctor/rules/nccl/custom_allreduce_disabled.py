"""The engine's own all-reduce for small messages is off; NCCL serves them all.

## What it sees
`--disable-custom-all-reduce` (or its setting), or the engine's warning that it refuses its custom all-reduce on this
topology; the baseline had it.

## Why it costs you
A decode step of one request all-reduces a few kilobytes twice per layer. The engine's one-shot kernels take 4 to 9
microseconds on NVLink, NCCL's ring 10 to 30 (MEASURING.md 5.4). It is felt at small batches and many layers.

## How to confirm
Start without the flag and look for `Registering … cuda graph addresses`, which the engine prints only when it is used.

## What usually did it
A flag from a debugging session; more than two cards without a full NVLink mesh; P2P lost; an unusual world size.

## When it is wrong
On PCIe cards beyond two the refusal is by design, in the tuned server as well. Across hosts it never runs. Another fast
path (FlashInfer, symmetric memory) may have taken its place.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Drift, Finding, Snapshot
from dflash_doctor.physics import STEP
from dflash_doctor.rules.seen import new, others, proof, proofs, put_back, switched_off

FUSED = ("comm.flashinfer_allreduce", "comm.flashinfer_allreduce_backend", "comm.symm_mem", "comm.quick_reduce")


def check(c: Comparison) -> Finding | None:
    tp = c.now.value("parallel.tp", 1)
    if not isinstance(tp, int) or tp < 2 or c.now.engine is None:
        return None
    setting = c.now.settings.get("comm.custom_allreduce")
    said = new(c, "comm.custom_ar_disabled")
    off = setting is not None and setting.value is False
    fused = [d for d in others(c, *FUSED) if switched_off(d)]
    if not off and not said:
        return _unfused(fused, tp) if fused else None
    if c.was is not None and _off(c.was):
        return None
    if c.now.find("comm.custom_ar_active", "comm.graph_registered") and not off:
        return None
    by_flag = off and setting is not None and setting.said == "asked"
    return Finding(
        cause="",
        summary="the engine's custom all-reduce is off"
        + (f" by {setting.spelled}" if by_flag and setting is not None and setting.spelled else " on this topology")
        + f" at tensor parallel {tp}",
        confidence=0.8 if c.was is not None else 0.5,
        severity="warning",
        evidence=(*proofs(said), *proof(setting)),
        next_steps=("start without --disable-custom-all-reduce",)
        if by_flag
        else ("nvidia-smi topo -m; nvidia-smi topo -p2p r",),
        touches=(STEP,),
    )


def _off(s: Snapshot) -> bool:
    return s.value("comm.custom_allreduce") is False or bool(s.find("comm.custom_ar_disabled"))


def _unfused(fused: list[Drift], tp: int) -> Finding:
    return Finding(
        cause="",
        summary=f"a fast all-reduce that the tuned server had is off at tensor parallel {tp}: {fused[0].words()}",
        confidence=0.65,
        severity="warning",
        evidence=proof(*fused),
        next_steps=tuple(put_back(d) for d in fused),
        touches=(STEP,),
    )
