"""The wanted attention backend was not available and the engine fell back to a slower one.

## What it sees
The engine runs another attention backend than it was asked for, or says that it cannot use a backend or a version of it
and takes another.

## Why it costs you
Attention grows with the context: a fallback costs little on short prompts and a multiple on long ones. It can also
take the graph mode down with it.

## How to confirm
Compare `Using … attention backend` with the flag, and read the reason on the warning line above it.

## What usually did it
A missing or mismatched kernel library (FlashInfer, flash-attn); a head size, KV dtype or block size that the wanted
backend does not take; a GPU generation without it; an environment variable that this release no longer reads.

## When it is wrong
Backends differ by design between GPU generations: the default is not a fallback. Warnings that the tuned server printed
too do not count.
"""

from __future__ import annotations

from dflash_doctor import settings
from dflash_doctor.model import Comparison, Finding, Setting
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.seen import distinct, new, new_about, proof, proofs

KEYS = ("attention.backend", "attention.prefill_backend", "attention.decode_backend", "attention.fa_version")


def check(c: Comparison) -> Finding | None:
    if c.drift("attention.draft_backend") and not c.drift(*KEYS):
        return None  # the drafter's backend has a name of its own
    refused = _refused(c)
    said = distinct([*new_about(c, "attention_backend_fallback"), *new(c, "attn.fallback", "attn.fa_fallback")])
    if refused is None and not said:
        return None
    if c.was is not None and not refused and not c.drift(*KEYS) and not said:
        return None
    asked, runs = refused or (None, c.now.settings.get("attention.backend"))
    words = (
        f"attention backend {asked.value} was asked for, {runs.value} runs"
        if asked and runs
        else f"the engine gave up an attention backend and runs {runs.value if runs else 'another one'}"
    )
    return Finding(
        cause="",
        summary=words,
        confidence=0.8 if refused and said else 0.7,
        severity="warning",
        evidence=(*proofs(said), *proof(asked, runs)),
        effects=("attention.backend_changed",),
        next_steps=(
            "read the reason on the line above; install or fix what it names",
            "then look for the wanted backend in the log",
        ),
        touches=(STEP, PREFILL),
    )


def _refused(c: Comparison) -> tuple[Setting, Setting] | None:
    """What was asked for and what runs, when the two differ here and did not differ so in the baseline."""
    for key in KEYS:
        asked, runs = c.now.asked.get(key), c.now.settings.get(key)
        if asked is None or runs is None or runs.said != "effective" or settings.alike(key, asked.value, runs.value):
            continue
        before = c.was.settings.get(key) if c.was else None
        if before is None or not settings.alike(key, before.value, runs.value):
            return asked, runs
    return None
