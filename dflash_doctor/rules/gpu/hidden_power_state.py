"""The GPU is slow while its counters look normal.

## What it sees
Step time jumps between two levels (or is well above the baseline's) with the same batch and acceptance, while clock,
power and event reasons under load are as they should be and no setting differs.

## Why it costs you
The card runs at one of two speeds; only speed itself shows which.

## How to confirm
Run a fixed kernel or one fixed prompt every minute for half an hour and look for two levels. Change nothing in the
engine meanwhile.

## What usually did it
Firmware or power delivery; known on GB10, where newer firmware ended it and taking AC power off helped.

## When it is wrong
Two levels of step time also come from two batch sizes, from graphs that cover one of them, from preemption and from a
neighbour on the card. Rule these out first.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from dflash_doctor import settings
from dflash_doctor.model import Comparison, Evidence, Finding, Interval
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.cards import fallen, loaded, numbers, reading_lines, reasons
from dflash_doctor.rules.graphs import batches
from dflash_doctor.rules.seen import MATTERS

APART = 1.25  # the two levels must differ by more than acceptance and context explain
TIGHT = 1.15  # within one level steps differ by less than that
KNOWN = ("GB10",)
LESS = 0.6  # of the power when tuned; the same work at the same clocks draws the same within a tenth


def check(c: Comparison) -> Finding | None:
    busy = loaded(c.now)
    clocks = numbers(busy, "clocks.sm")
    if not clocks or fallen(c, "clocks.sm", 0.95) or any(v - {"gpu_idle"} for v in reasons(busy).values()):
        return None
    top = numbers(busy, "clocks.max.sm")
    if any(clocks[i] < 0.6 * top[i] for i in clocks if i in top):
        return None
    levels = _two_levels(c)
    if levels is None:
        return _draws_less(c)
    fast, slow, rows = levels
    known = any(k in name for name in c.now.gpu_names() for k in KNOWN)
    return Finding(
        cause="",
        summary=f"step time jumps between {fast:.0f} and {slow:.0f} ms at one batch and acceptance, with normal clocks",
        confidence=0.7 if known else 0.5,
        severity="warning",
        evidence=(
            *(Evidence("server.log", r.text, r.line) for r in rows if r.text),
            *reading_lines(busy, "clocks.sm", "power.draw", "clocks_event_reasons.active"),
        ),
        next_steps=(
            "run one fixed prompt every minute for half an hour and note its speed",
            "update the firmware; take AC power off for some minutes",
        ),
        touches=(STEP, PREFILL),
        proven=True,
    )


def _draws_less(c: Comparison) -> Finding | None:
    """As busy and as fast by its clocks as when tuned, and yet slower on a fraction of the power."""
    fell, as_busy = fallen(c, "power.draw", LESS), not fallen(c, "utilization.gpu", 0.9)
    if not fell or not c.slower or not as_busy or "utilization.gpu" not in _keys(c):
        return None
    if any(settings.speed_weight(d.key) >= MATTERS for d in c.drifts):
        return None  # other work draws other power
    was, now = min(fell.values(), key=lambda p: p[1] / p[0])
    known = any(k in name for name in c.now.gpu_names() for k in KNOWN)
    return Finding(
        cause="",
        summary=f"the card is as busy at the same clocks, but draws {now:.0f} W where it drew {was:.0f} W",
        confidence=0.8 if known else 0.5,
        severity="critical",
        evidence=reading_lines(
            loaded(c.now), "power.draw", "clocks.sm", "utilization.gpu", "clocks_event_reasons.active"
        ),
        next_steps=("shut down, take AC power off for some minutes, boot again", "then run the same load once more"),
        touches=(STEP, PREFILL),
    )


def _keys(c: Comparison) -> set[str]:
    return {k for r in loaded(c.now) for k in r.values}


def _two_levels(c: Comparison) -> tuple[float, float, tuple[Interval, ...]] | None:
    """Step times (ms) of equal batches that fall into two groups with nothing between; each must be seen twice."""
    for n, rows in batches(c.now).items():
        pure = [r for r in rows if r.generation_tok_s and (r.prompt_tok_s or 0) < 0.5 * r.generation_tok_s]
        timed = ((1000 * n * (r.accept_length or 1.0) / (r.generation_tok_s or 1.0), r) for r in pure)
        steps = sorted(timed, key=lambda t: t[0])
        if len(steps) < 4:
            continue
        gaps = [(b[0] / a[0], k) for k, (a, b) in enumerate(pairwise(steps), 1)]
        widest, at = max(gaps, key=lambda g: g[0])
        low, high = steps[:at], steps[at:]
        tight = all(level[-1][0] / level[0][0] <= TIGHT for level in (low, high))
        if widest < APART or min(len(low), len(high)) < 2 or not tight:
            continue
        if not _explained([r for _, r in low], [r for _, r in high]):
            return median(s for s, _ in low), median(s for s, _ in high), (low[0][1], high[-1][1])
    return None


def _explained(low: list[Interval], high: list[Interval]) -> bool:
    """Whether the two groups differ in something that explains their two speeds."""
    graphs = any(r.graph is False for r in high) and any(r.graph for r in low)
    return (
        graphs
        or _differ(low, high, "accept_length", 1.15)
        or any(_differ(low, high, name, 2.0) for name in ("kv_usage", "context_tokens"))
    )


def _differ(low: list[Interval], high: list[Interval], name: str, by: float) -> bool:
    a, b = ([getattr(r, name) for r in rows if getattr(r, name)] for rows in (low, high))
    return bool(a and b) and not 1 / by < median(a) / median(b) < by
