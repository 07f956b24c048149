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

from dflash_doctor.model import Comparison, Evidence, Finding, Interval
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.cards import fallen, loaded, numbers, reading_lines, reasons
from dflash_doctor.rules.graphs import batches

APART = 1.25  # the two levels must differ by more than acceptance and context explain
KNOWN = ("GB10",)


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
        return None
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


def _two_levels(c: Comparison) -> tuple[float, float, tuple[Interval, ...]] | None:
    """Step times (ms) of equal batches that fall into two groups with nothing between; each must be seen twice."""
    for n, rows in batches(c.now).items():
        steps = sorted(
            (1000 * n * (r.accept_length or 1.0) / r.generation_tok_s, r)
            for r in rows if r.generation_tok_s and (r.prompt_tok_s or 0) < 0.5 * r.generation_tok_s
        ) if rows else []  # fmt: skip
        if len(steps) < 4:
            continue
        gaps = [(b[0] / a[0], k) for k, (a, b) in enumerate(pairwise(steps), 1)]
        widest, at = max(gaps, key=lambda g: g[0])
        low, high = steps[:at], steps[at:]
        if (
            widest < APART
            or min(len(low), len(high)) < 2
            or low[-1][0] / low[0][0] > 1.15
            or high[-1][0] / high[0][0] > 1.15
        ):
            continue
        if _apart([r for _, r in low], [r for _, r in high]):
            continue
        return median(s for s, _ in low), median(s for s, _ in high), (low[0][1], high[-1][1])
    return None


def _apart(low: list[Interval], high: list[Interval]) -> bool:
    """Whether the two groups differ in something that explains them."""
    for name in ("accept_length", "kv_usage", "context_tokens"):
        a = [getattr(r, name) for r in low if getattr(r, name) is not None]
        b = [getattr(r, name) for r in high if getattr(r, name) is not None]
        if a and b and median(b) > 0 and not 0.5 < median(a) / median(b) < 2 and name != "accept_length":
            return True
        if name == "accept_length" and a and b and abs(median(a) / median(b) - 1) > 0.15:
            return True
    return any(r.graph is False for r in high) and any(r.graph for r in low)
