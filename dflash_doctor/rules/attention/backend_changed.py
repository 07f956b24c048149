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

from dflash_doctor import settings
from dflash_doctor.model import Comparison, Drift, Finding
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.seen import others, proof, put_back, same_engine

# these have names of their own
ELSEWHERE = ("attention.draft_backend", "attention.sliding_window")
PHASES = ("attention.decode_backend", "attention.prefill_backend")
KEYS = ("attention.backend", "attention.prefill_backend", "attention.decode_backend", "attention.fa_version")


def check(c: Comparison) -> Finding | None:
    changed = [d for d in c.drift(*KEYS) if d.was is not None and d.now is not None]
    changed += [d for key in PHASES if (d := _one_phase(c, key)) is not None and d not in changed]
    named = bool(changed)
    changed = changed or others(c, "attention.*", but=ELSEWHERE)
    if not changed:
        return None
    first = changed[0]
    return Finding(
        cause="",
        summary=first.words(),
        confidence=0.3 if not same_engine(c) else 0.7 if named else 0.55,
        severity="warning",
        evidence=proof(*changed, first.was),
        next_steps=tuple(put_back(d) for d in changed),
        touches=(STEP, PREFILL),
    )


def _one_phase(c: Comparison, key: str) -> Drift | None:
    """One phase that has a backend of its own on one side only: on the other it runs on the general one."""
    if c.was is None or (key in c.now.settings) == (key in c.was.settings):
        return None
    now, was = (s.settings.get(key) or s.settings.get("attention.backend") for s in (c.now, c.was))
    if now is None or was is None or settings.alike("attention.backend", was.value, now.value):
        return None
    return Drift(key, was, now)
