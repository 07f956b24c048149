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

from statistics import median

from dflash_doctor.model import Comparison, Evidence, Finding, Signal, Snapshot
from dflash_doctor.physics import PREFILL, QUEUE
from dflash_doctor.rules.seen import new_about, proof, proofs

QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total", "vllm:prefix_cache_queries")
HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "vllm:prefix_cache_hits")
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
    return _never_hits(c) or _hits_less(c)


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
    """The cache is on, a lot was asked of it, and it never answered; only where prompts are known to repeat."""
    asked, hit = c.now.total(*QUERIES), c.now.total(*HITS)
    if asked is None or hit is None or asked < ENOUGH or hit > 0.002 * asked:
        return None
    if c.was is not None:
        before, hits_before = c.was.total(*QUERIES), c.was.total(*HITS)
        if before and (hits_before or 0) <= 0.002 * before:
            return None
    drafting = c.now.value("spec.method") not in (None, "none")
    return Finding(
        cause="",
        summary=f"the prefix cache never hits: {hit:,.0f} of {asked:,.0f} prompt tokens"
        + (", with speculation on" if drafting else ""),
        confidence=0.7 if drafting else 0.5,
        severity="warning",
        evidence=(
            Evidence("metrics.prom", f"{QUERIES[0]} {asked:.0f}"),
            Evidence("metrics.prom", f"{HITS[0]} {hit:.0f}"),
            *proof(c.now.settings.get("sched.prefix_cache")),
        ),
        next_steps=(
            "send one long prompt three times and compare the times to the first token",
            "try once with speculation off",
        ),
        touches=(PREFILL, QUEUE),
    )


def _hits_less(c: Comparison) -> Finding | None:
    now, was = _rate(c.now), _rate(c.was) if c.was else None
    if now is None or was is None or was < 0.2 or now > 0.5 * was:
        return None
    return Finding(
        cause="",
        summary=f"the prefix cache hits {now:.0%} of prompt tokens, {was:.0%} when tuned",
        confidence=0.6,
        severity="warning",
        evidence=_lines(c.now),
        next_steps=(
            "check that the prompts still share their beginning, byte for byte",
            "look for what flushes or disables the cache",
        ),
        touches=(PREFILL, QUEUE),
    )


def _rate(s: Snapshot) -> float | None:
    asked, hit = s.total(*QUERIES), s.total(*HITS)
    if asked is not None and hit is not None and asked >= ENOUGH / 10:
        return hit / asked
    rates = [x.value for x in s.samples if x.metric == "prefix_hit_rate"]
    return float(median(rates)) if rates else None


def _lines(s: Snapshot) -> tuple[Evidence, ...]:
    rows = [i for i in s.intervals if i.prefix_hit_rate is not None and i.text]
    return tuple(Evidence("server.log", i.text, i.line) for i in rows[-1:])
