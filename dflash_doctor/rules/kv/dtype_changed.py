"""The KV cache is stored in another dtype than tuned.

## What it sees
The KV cache dtype that the engine uses, or was asked for, differs from the baseline's.

## Why it costs you
A wider dtype halves the room and doubles the bytes attention reads; a narrower one can take a slower or erratic
attention kernel, and without scales it lowers acceptance.

## How to confirm
Set `--kv-cache-dtype` back and run the same load, at short and at long context.

## What usually did it
A recipe for more context; a changed default for a model; a checkpoint that brings scales of its own.

## When it is wrong
At short contexts KV bytes hardly count. More room is not speed.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import PREFILL, QUEUE, STEP, TOKENS
from dflash_doctor.rules.seen import new, proof, proofs, put_back


def check(c: Comparison) -> Finding | None:
    changed = [d for d in c.drift("kv.dtype") if d.was is not None and d.now is not None]
    if not changed:
        return None
    said = new(c, "quant.kv_cache", "kv.dtype", "attn.trtllm")
    return Finding(
        cause="",
        summary=f"{changed[0].words()}: another attention kernel reads the cache",
        confidence=0.75,
        severity="warning",
        evidence=(*proof(*changed), *proofs(said[:2])),
        next_steps=tuple(put_back(d) for d in changed),
        touches=(STEP, TOKENS, QUEUE, PREFILL),
    )
