"""Speculation costs more than it gains at this concurrency.

## What it sees
Many requests run, acceptance is as good as with few, and the speed of each falls far more than that of plain decoding
would; or the baseline without speculation is faster at this concurrency and not at one request.

## Why it costs you
With few requests verification is free: the step is bound by memory. Past the ridge point (some tens of tokens per step
and GPU) it is bound by compute, and every rejected token is work taken from others.

## How to confirm
Run the loaded point once with speculation off. The crossing is where both give the same.

## What usually did it
A recipe for one user serving many; a fixed draft length at every batch size; `disable_by_batch_size` not set.

## When it is wrong
When acceptance falls with the load, or the KV cache is full, or running batches leave the captured graphs. Speed per
request falls with concurrency on every server.
"""

from __future__ import annotations

from statistics import median

from dflash_doctor.model import Comparison, Evidence, Finding, Interval
from dflash_doctor.physics import STEP
from dflash_doctor.rules.drafting import drafting
from dflash_doctor.rules.graphs import batches
from dflash_doctor.rules.seen import proof

MANY = 16  # requests; verify batches below this are bound by memory on every data-centre GPU
TWICE = 1.4  # a step that grows by this much when the batch doubles is no longer bound by memory


def check(c: Comparison) -> Finding | None:
    now = drafting(c.now)
    if not now.on or (now.length or 1) < 1.2:
        return None
    plain_before = c.was is not None and drafting(c.was).method in (None, "none")
    slow = [
        d
        for d in c.deltas
        if d.metric in ("output_tok_s", "total_tok_s") and (d.concurrency or 1) >= MANY and d.verdict == "worse"
    ]
    fine = [
        d
        for d in c.deltas
        if d.metric == "output_tok_s" and (d.concurrency or 99) <= 4 and d.verdict in ("same", "better")
    ]
    if plain_before and slow:
        return _finding(
            c,
            0.85 if fine else 0.7,
            f"at {slow[0].concurrency:.0f} requests speculation makes the server {1 - slow[0].factor:.0%} slower",
            (),
        )
    if c.was is not None:
        return None
    growth = _growth(c)
    if growth is None:
        return None
    few, many, factor, rows = growth
    words = f"from {few} to {many} running requests a step takes {factor:.1f}x as long at the same acceptance"
    return _finding(c, 0.6, words, tuple(Evidence("server.log", r.text, r.line) for r in rows if r.text)[:3])


def _growth(c: Comparison) -> tuple[int, int, float, list[Interval]] | None:
    """How much the step grew from a small to a large batch with acceptance alike, when beyond what memory explains."""
    by = {n: r for n, r in batches(c.now).items() if any(x.generation_tok_s and x.accept_length for x in r)}
    if len(by) < 2 or max(by) < MANY or max(by) < 2 * min(by):
        return None
    few, many = min(by), max(by)
    a_few, a_many = _length(by[few]), _length(by[many])
    if abs(a_many / a_few - 1) > 0.1:
        return None
    steps = [n * _length(by[n]) / _speed(by[n]) for n in (few, many)]
    factor = steps[1] / steps[0]
    doublings = max(1.0, (many / few) ** 0.5)
    return (few, many, factor, [*by[few][:1], *by[many][:2]]) if factor > TWICE and factor > 0.7 * doublings else None


def _length(rows: list[Interval]) -> float:
    return float(median(x.accept_length for x in rows if x.accept_length))


def _speed(rows: list[Interval]) -> float:
    return float(median(x.generation_tok_s for x in rows if x.generation_tok_s))


def _finding(c: Comparison, confidence: float, words: str, lines: tuple[Evidence, ...]) -> Finding:
    return Finding(
        cause="",
        summary=words,
        confidence=confidence,
        severity="warning",
        evidence=(*lines, *proof(c.now.settings.get("spec.method"))),
        next_steps=(
            "run the loaded point once with speculation off",
            "draft fewer tokens, or none, above the crossing",
        ),
        touches=(STEP,),
    )
