"""Numbers over time for the pictures: finite, counted from their first moment, few enough to draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from dflash_doctor.model import Interval, Snapshot
from dflash_doctor.physics import curve

Points = tuple[tuple[float, float], ...]
MOST = 240  # points of one line: more than a picture of 400 pixels can show
LARGEST = 1e13  # beyond any speed, clock or second since 1970
FEWEST = 2  # one moment is no course


def drawable(x: float) -> bool:
    """Whether a number has a place on an axis; logs and counters hold others, too."""
    return math.isfinite(x) and 0 <= x < LARGEST


def over_time(intervals: Sequence[Interval], of: Callable[[Interval], float | None]) -> Points:
    """One value of the engine's log over seconds, from the first line on that has it; the mean of several engines.

    Without clock times the lines are counted instead: see `timed`.
    """
    kept = [(i, v) for i in intervals if (v := of(i)) is not None and drawable(v)]
    if len(kept) < FEWEST:
        return ()
    times = [i.time for i, _ in kept]
    if timed(intervals):
        start = min(t for t in times if t is not None)
        rows = [(t - start, v) for t, (_, v) in zip(times, kept, strict=True) if t is not None]
    else:
        rows = [(float(n), v) for n, (_, v) in enumerate(kept)]
    return thinned(sorted(rows))


def timed(intervals: Sequence[Interval]) -> bool:
    """Whether the log said when; then x is seconds, else the number of the line."""
    return all(i.time is not None and drawable(i.time) for i in intervals)


def thinned(rows: Sequence[tuple[float, float]], most: int = MOST) -> Points:
    """At most `most` points: equal moments are one, then neighbours are put together by their median."""
    by_moment: dict[float, list[float]] = {}
    for x, y in rows:
        by_moment.setdefault(x, []).append(y)
    points = [(x, fmean(ys)) for x, ys in by_moment.items()]
    if len(points) <= most:
        return tuple(points)
    edges = [round(k * len(points) / most) for k in range(most + 1)]
    groups = [points[a:b] for a, b in pairwise(edges) if b > a]
    return tuple((fmean(x for x, _ in g), median(y for _, y in g)) for g in groups)


def speed(i: Interval) -> float | None:
    """Tokens per second of one log interval; prefill lines of SGLang say nothing of it."""
    return None if i.kind == "prefill" else i.generation_tok_s


def kept(i: Interval) -> float | None:
    """Tokens kept per pass, the bonus token counted."""
    return i.accept_length


def acceptance(s: Snapshot | None) -> tuple[float, ...]:
    """Share of drafts accepted up to each position, by the log, else by the counters and the load: 0..1."""
    if s is None:
        return ()
    found = curve(s)
    if found:
        return _shares(found)
    rows = [x.conditions.get("per_position") for x in s.samples if x.metric == "accept_length"]
    told = [r for r in map(_shares, rows) if r]
    n = min(map(len, told), default=0)
    return tuple(fmean(r[k] for r in told) for k in range(n))


def _shares(row: Any) -> tuple[float, ...]:
    if not isinstance(row, (list, tuple)) or not all(isinstance(p, (int, float)) and 0 <= p <= 1.01 for p in row):
        return ()
    return tuple(float(p) for p in row)


def gpu_over_time(s: Snapshot, key: str) -> dict[int, Points]:
    """One counter of each GPU over the seconds of the sampling; GPUs seen at one moment only are left out."""
    rows: dict[int, list[tuple[float, float]]] = {}
    for r in s.readings:
        v = r.values.get(key)
        if isinstance(v, (int, float)) and not isinstance(v, bool) and drawable(v) and drawable(r.t):
            rows.setdefault(r.index, []).append((r.t, float(v)))
    start = min((t for got in rows.values() for t, _ in got), default=0.0)
    lines = {i: thinned(sorted((t - start, v) for t, v in got)) for i, got in sorted(rows.items())}
    return {i: line for i, line in lines.items() if len(line) >= FEWEST}
