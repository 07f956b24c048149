"""Prefix caching is off, or on and never hits.

## What it sees
The engine runs without prefix (radix) cache where the tuned server had it; or the cache is on, prompts repeat, and the
hit counters stay at zero; or the hit rate fell against the baseline under the same workload.

## Why it costs you
Every shared system prompt, every turn of a chat is prefilled anew: first tokens come late and prefill takes the time of
decode. Speed within an answer is unchanged.

## How to confirm
Send one long prompt twice: the second first token must come in a fraction of the time. Then look at the hit counters.

## What usually did it
A flag; a feature that disables it (some drafters, pooling, multimodal, deterministic mode); hybrid models whose cache
keeps a state only at block edges; another hash or page size.

## When it is wrong
Prompts that share nothing cannot hit; a server that has just started has nothing to hit yet. The first repeat may miss
by design. A benchmark that was warm before and is cold now measured the cache, not the server.
"""

from __future__ import annotations

import re
from typing import Any

from dflash_doctor.model import Comparison, Finding, Sample, Signal
from dflash_doctor.physics import PREFILL, QUEUE
from dflash_doctor.rules.caching import asked, cache_lines, hit_rate, volatile
from dflash_doctor.rules.seen import new_about, proof, proofs

LONG = 4_000  # tokens of a prompt whose prefill is worth keeping
AGAIN = re.compile(
    r"\b(?:\d+(?:st|nd|rd|th|\.)?\s*(?:time|turn|send|round)?|first|second|third|again|repeat(?:ed)?|cold|warm)\b", re.I
)
NOTHING = 0.002  # a rate this small is the odd block of a common template, no reuse
ENOUGH = 20_000  # prompt tokens asked for: traffic of this size without one hit is no accident where prompts repeat


def check(c: Comparison) -> Finding | None:
    setting = c.now.settings.get("sched.prefix_cache")
    was = c.was.settings.get("sched.prefix_cache") if c.was else None
    said = [s for s in new_about(c, "prefix_cache_off") if s.level != "DEBUG"]
    if setting is not None and setting.value is False:
        if was is not None and was.value is False:
            return None
        if was is None and c.was is not None and not said:
            return None
        return _off(c, said)
    return _repeat_misses(c) or _never_hits(c) or _hits_less(c)


def _off(c: Comparison, said: list[Signal]) -> Finding:
    setting = c.now.settings["sched.prefix_cache"]
    tuned = c.was is not None and c.was.value("sched.prefix_cache") is True
    return Finding(
        cause="",
        summary="prefix caching is off" + ("; the tuned server had it" if tuned else ""),
        confidence=0.88 if tuned else 0.35,
        severity="warning" if tuned else "info",
        evidence=(*proofs(said[:2]), *proof(setting)),
        next_steps=(
            f"start without {setting.spelled}" if setting.spelled.startswith("--") else "switch prefix caching on",
        ),
        touches=(PREFILL, QUEUE),
    )


def _never_hits(c: Comparison) -> Finding | None:
    """The cache is on, a lot was asked of it, and it never answered; more telling where a drafter is in play."""
    queries, rate = asked(c.now), hit_rate(c.now)
    if queries is None or rate is None or queries < ENOUGH or rate > NOTHING:
        return None
    if c.was is not None and asked(c.was) and (hit_rate(c.was) or 0.0) <= NOTHING:
        return None
    drafting = c.now.value("spec.method") not in (None, "none")
    # prompts of a benchmark share nothing and never hit; hybrid models with a drafter may not be able to
    hybrid = c.now.find("prefix.mamba_mode", "attn.kv_layers_mixed", "attn.block_size")
    return Finding(
        cause="",
        summary=f"the prefix cache never hits: {rate:.1%} of {queries:,.0f} prompt tokens"
        + (", with speculation on" if drafting else ""),
        confidence=0.7 if c.was is not None or (drafting and hybrid) else 0.4,
        severity="warning",
        evidence=(*cache_lines(c.now), *proofs(hybrid[:1]), *proof(c.now.settings.get("sched.prefix_cache"))),
        next_steps=(
            "send one long prompt three times and compare the times to the first token",
            "try once with speculation off",
        ),
        touches=(PREFILL, QUEUE),
    )


def _hits_less(c: Comparison) -> Finding | None:
    now, was = hit_rate(c.now, ENOUGH / 10), hit_rate(c.was, ENOUGH / 10) if c.was else None
    if now is None or was is None or was < 0.2 or now > 0.5 * was:
        return None
    changing = volatile(c)
    return Finding(
        cause="",
        summary=f"the prefix cache hits {now:.0%} of prompt tokens, {was:.0%} when tuned"
        + ("; prompts begin with something else in every request now" if changing else ""),
        confidence=0.88 if changing else 0.6,
        severity="warning",
        evidence=(*cache_lines(c.now), *proofs([changing] if changing else [])),
        next_steps=(
            "check that the prompts still share their beginning, byte for byte",
            "look for what flushes or disables the cache",
        ),
        touches=(PREFILL, QUEUE),
    )


def _repeat_misses(c: Comparison) -> Finding | None:
    """One long prompt sent again, whose first token took as long as the first time."""
    by: dict[tuple[str, Any], list[Sample]] = {}
    for s in c.now.samples:
        if s.metric == "ttft_ms" and s.workload and AGAIN.search(s.workload):
            by.setdefault((AGAIN.sub("", s.workload), s.conditions.get("input_tokens")), []).append(s)
    for rows in by.values():
        if len(rows) < 2 or not (rows[0].conditions.get("input_tokens") or 0) >= LONG:
            continue
        if rows[1].value > 0.8 * rows[0].value:
            return Finding(
                cause="",
                summary=f"a long prompt sent again is computed anew: first token {rows[0].value / 1000:.1f} s, "
                f"then {rows[1].value / 1000:.1f} s",
                confidence=0.75,
                severity="warning",
                evidence=(
                    *proof(*(r.evidence for r in rows[:3])),
                    *proofs(c.now.find("prefix.*", "attn.block_size")[:2]),
                ),
                next_steps=("send it a third time: a cache that keeps only what was seen twice hits then",),
                touches=(PREFILL, QUEUE),
                proven=True,
            )
    return None
