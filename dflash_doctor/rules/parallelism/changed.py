"""The model is split over the GPUs in another way than tuned.

## What it sees
Tensor, pipeline, data or expert parallel sizes differ from the baseline's.

## Why it costs you
Tensor parallelism divides the bytes a step reads and adds two all-reduces per layer: fewer ranks read more each, more
ranks talk more. Pipeline stages add their latency to every token.

## How to confirm
Start with the tuned sizes on the same cards.

## What usually did it
A launch line for another machine; a card that went missing; data parallelism that splits limits over ranks.

## When it is wrong
Two engines count differently: SGLang's tp size is the world size when its attention is data parallel.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import PREFILL, QUEUE, STEP
from dflash_doctor.rules.seen import others, proof, put_back

# which cards it is, not how the work is divided
PLACES = ("parallel.device_ids", "parallel.base_gpu_id", "parallel.gpu_id_step", "parallel.gpu_select")
KEYS = ("parallel.tp", "parallel.pp", "parallel.dp", "parallel.ep", "parallel.nodes")


def check(c: Comparison) -> Finding | None:
    changed = [d for d in c.drift(*KEYS) if d.was is not None and d.now is not None]
    named = bool(changed)
    changed = changed or others(c, "parallel.*", but=PLACES)
    if not changed:
        return None
    return Finding(
        cause="",
        summary="; ".join(d.words() for d in changed),
        confidence=0.75 if named else 0.55,
        severity="warning",
        evidence=proof(*changed, *(d.was for d in changed)),
        next_steps=tuple(put_back(d) for d in changed),
        touches=(STEP, PREFILL, QUEUE),
    )
