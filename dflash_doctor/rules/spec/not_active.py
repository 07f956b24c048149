"""Speculation was tuned in, but is not running.

## What it sees
The baseline drafted (a method was set, or steps gave more than one token); this server has no method, or has one and
drafts nothing.

## Why it costs you
Every step yields one token again. What you lose is the baseline's tokens per step, less the cost of drafting.

## How to confirm
`vllm:spec_decode_num_drafts_total` (vLLM) or `accept len` on decode lines (SGLang) stay away while requests run.

## What usually did it
A launch line rewritten without `--speculative-config`; a drafter path that is missing; an engine that switches
speculation off for an unsupported combination and says so once, at start.

## When it is wrong
When speculation was taken out on purpose because it did not pay. An adaptive rule may also switch it off at high
concurrency; then compare at the concurrency of the baseline.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import TOKENS, drafts_nothing, tokens_per_step
from dflash_doctor.rules.seen import new_about, proof


def check(c: Comparison) -> Finding | None:
    now, was = c.now.settings.get("spec.method"), c.was.settings.get("spec.method") if c.was else None
    dropped = new_about(c, "spec_off")
    if (
        now is not None
        and now.value != "none"
        and not ((dropped or drafts_nothing(c.now)) and tokens_per_step(c.now) in (None, 1.0))
    ):
        return None
    if c.was is None:
        return _silently_off(c) if now is not None and now.value != "none" and dropped else None
    if was is None or was.value == "none":
        return None
    if now is None and tokens_per_step(c.now) not in (None, 1.0):
        return None
    gained = tokens_per_step(c.was)
    tuned = was.evidence.text[:300] if was.evidence else f"{was.spelled} {was.value}"
    if now is not None and now.value != "none" and not dropped:
        return _never_drafts(c)
    gave = f", which gave {gained:.2g} tokens per step" if gained and gained > 1 else ""
    return Finding(
        cause="",
        summary=f"speculation is off; the tuned server ran {was.value}{gave}",
        confidence=0.95 if now is not None else 0.8,
        severity="critical",
        evidence=proof(*dropped, now, was),
        effects=("spec.acceptance_collapse",),
        next_steps=(f"put the speculative configuration back: {tuned}",),
        touches=(TOKENS,),
    )


def _never_drafts(c: Comparison) -> Finding:
    return Finding(
        cause="",
        summary="speculation is set up, but not one draft was made while tokens were written",
        confidence=0.7,
        severity="critical",
        evidence=proof(c.now.settings.get("spec.method")),
        effects=("spec.acceptance_collapse",),
        next_steps=("look for what requests ask for that this release cannot draft for (min_p, penalties, logprobs)",),
        touches=(TOKENS,),
    )


def _silently_off(c: Comparison) -> Finding:
    dropped = new_about(c, "spec_off")
    return Finding(
        cause="",
        summary="speculation was asked for, but the engine says that it does not run it",
        confidence=0.75,
        evidence=proof(*dropped, c.now.settings.get("spec.method")),
        next_steps=("read the line above in the engine's log and remove what it objects to",),
        touches=(TOKENS,),
    )
