"""Another attention backend runs than when this server was tuned.

## What it sees
The attention backend (or the major version of FlashAttention) that the engine says it uses differs from the baseline's,
and it did not say that it had to.

## Why it costs you
Backends differ by 10 to 30 % in decode and more in prefill, in how they handle verify batches of speculation, and in
which graph mode they allow.

## How to confirm
Set the old backend by flag and run the same load.

## What usually did it
A flag or environment variable that was lost or is no longer read; a release with another default; another GPU.

## When it is wrong
Two engines name one kernel family differently (fa3, FLASH_ATTN): the table of names knows the common ones. Another
engine's backend is a difference, but rarely the reason.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.seen import proof, put_back, same_engine

KEYS = ("attention.backend", "attention.prefill_backend", "attention.decode_backend", "attention.fa_version")


def check(c: Comparison) -> Finding | None:
    changed = [d for d in c.drift(*KEYS) if d.was is not None and d.now is not None]
    if not changed:
        return None
    first = changed[0]
    return Finding(
        cause="",
        summary=first.words(),
        confidence=0.7 if same_engine(c) else 0.3,
        severity="warning",
        evidence=proof(*changed, first.was),
        next_steps=tuple(put_back(d) for d in changed),
        touches=(STEP, PREFILL),
    )
