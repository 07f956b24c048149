"""Acceptance is fine on short contexts and falls with context length.

## What it sees
On this server, tokens per step fall clearly from intervals with few tokens in use to those with many, more than in the
baseline; or workloads with long inputs keep clearly fewer than short ones.

## Why it costs you
Long conversations and documents run at the speed of a poor drafter, while every short benchmark looks fine.

## How to confirm
Measure acceptance at 1k, 8k and 32k tokens with one prompt each, on one idle server.

## What usually did it
A drafter trained on short texts; its maximum length or RoPE scaling below the target's; a window that is not applied.

## When it is wrong
Different lengths often are different texts: code at 8k keeps more than a chat at 1k. A lost window has a name of its
own (`attention.window_ignored`).
"""

from __future__ import annotations

import re
from statistics import median

from dflash_doctor.model import Comparison, Evidence, Finding, Sample, Snapshot
from dflash_doctor.physics import TOKENS

LENGTH = re.compile(r"(?<![\w.])(?P<n>\d+(?:\.\d+)?)\s*(?P<k>k)\b|(?:ctx|context|len|input)[-_ ]?(?P<m>\d{3,})", re.I)
LONG, SHORT = 8000, 2000  # tokens of context; drafters are usually trained up to 2k or 4k


def check(c: Comparison) -> Finding | None:
    now = _short_and_long(c.now)
    if now is None or now[1] > 0.75 * now[0]:
        return None
    was = _short_and_long(c.was) if c.was else None
    if was is not None and was[1] < 0.85 * was[0]:
        return None
    short, long, lines = now
    return Finding(
        cause="",
        summary=f"tokens per step fall from {short:.2f} under {SHORT:,} tokens of context to {long:.2f} above {LONG:,}",
        confidence=0.65 if was else 0.5,
        severity="warning",
        evidence=lines,
        effects=("spec.acceptance_collapse",),
        next_steps=(
            "measure acceptance at 1k, 8k and 32k tokens",
            "use a drafter trained for long contexts, or switch drafting off above",
        ),
        touches=(TOKENS,),
    )


def _context(x: Sample) -> float | None:
    """Tokens of context behind a sample: what the row says, else what its workload's name says (`32k`, `ctx-8000`)."""
    size = x.conditions.get("input_tokens")
    if isinstance(size, (int, float)):
        return float(size)
    m = LENGTH.search(x.workload or "")
    if m is None:
        return None
    return float(m["m"]) if m["m"] else 1000 * float(m["n"])


def _short_and_long(s: Snapshot | None) -> tuple[float, float, tuple[Evidence, ...]] | None:
    """Median acceptance length at short and at long contexts, from single-request intervals or from load rows."""
    if s is None:
        return None
    rows = [
        (i.context_tokens, i.accept_length, i)
        for i in s.intervals
        if i.context_tokens and i.accept_length and i.running == 1
    ]
    short = [a for n, a, _ in rows if n < SHORT]
    long = [a for n, a, _ in rows if n > LONG]
    lines = tuple(Evidence("server.log", i.text, i.line) for n, _, i in rows if n > LONG and i.text)[:2]
    for x in s.samples:
        size = _context(x)
        if x.metric == "accept_length" and size is not None:
            (short if size < SHORT else long if size > LONG else []).append(x.value)
    return (float(median(short)), float(median(long)), lines) if short and long else None
