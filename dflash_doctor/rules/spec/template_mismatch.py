"""The prompts reach the drafter in another form than it was trained or tuned on.

## What it sees
Acceptance fell while the chat template, the thinking mode or the endpoint (raw completions instead of chat) differs; or
the engine says that the model has no chat template.

## Why it costs you
A drafter learns the target's answers to templated prompts. On raw text, or with thinking switched, it guesses another
distribution.

## How to confirm
Send one prompt through `/v1/chat/completions` with the tuned template and compare acceptance.

## What usually did it
A benchmark on `/v1/completions`; `--chat-template` lost; a new checkpoint whose template switches thinking on.

## When it is wrong
When the text itself changed: code is easier than prose under any template.
"""

from __future__ import annotations

import re

from dflash_doctor.model import Comparison, Drift, Finding, Sample, Signal
from dflash_doctor.physics import TOKENS
from dflash_doctor.rules.drafting import acceptance, drafting, fell, same_drafter
from dflash_doctor.rules.seen import new, proof, proofs

KEYS = ("model.chat_template", "other.chat_template", "other.reasoning_parser", "other.default_chat_template_kwargs")
MODE = re.compile(r"no[-_ ]?think|thinking|raw|completions|chat", re.I)


def check(c: Comparison) -> Finding | None:
    if c.was is None or not drafting(c.now).on or not fell(c) or not same_drafter(c):
        return None
    changed: list[Drift] = list(c.drift(*KEYS))
    here, there = _modes(c.now.samples), _modes(c.was.samples)
    other = bool(here and there and here != there)
    said: list[Signal] = [s for s in new(c, "unknown", "api.*") if "chat template" in s.evidence.text.lower()]
    if not changed and not other and not said:
        return None
    words = (
        changed[0].words()
        if changed
        else f"{'/'.join(sorted(there))} -> {'/'.join(sorted(here))}"
        if other
        else "no chat template"
    )
    return Finding(
        cause="",
        summary=f"prompts reach the drafter in another form ({words}), and acceptance fell",
        confidence=0.7 if changed or said else 0.6,
        severity="warning",
        evidence=(*proofs(said[:1]), *proof(*changed), *acceptance(c.now)),
        effects=("spec.acceptance_collapse",),
        next_steps=("send the same prompt through /v1/chat/completions with the tuned template",),
        touches=(TOKENS,),
    )


def _modes(samples: tuple[Sample, ...]) -> set[str]:
    found = set()
    for s in samples:
        for text in (
            s.workload,
            s.conditions.get("api"),
            s.conditions.get("thinking"),
            s.conditions.get("endpoint_type"),
        ):
            if text is not None and (m := MODE.search(str(text))):
                found.add(m[0].lower())
    return found
