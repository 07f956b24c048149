"""The history of one host as a person asks for it: how its numbers went, where they turned, what changed with that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dflash_doctor.history.changes import Change, changes
from dflash_doctor.history.runs import Run
from dflash_doctor.metrics import METRICS, speed_factor


@dataclass(frozen=True)
class Turn:
    """A change of level, and which settings and versions are others since then."""

    change: Change
    run: Run  # the first of the new level
    before: Run  # the last of the old one
    factor: float  # of the speed; below 1 is slower
    changed: tuple[tuple[str, str | None, str | None], ...]  # key, was, now


@dataclass(frozen=True)
class Trend:
    """One series."""

    metric: str
    workload: str
    concurrency: float
    runs: tuple[int, ...]  # numbers of the runs behind the values
    values: tuple[float, ...]
    turns: tuple[Turn, ...]


def trends(runs: Sequence[Run], series: Mapping[str, Sequence[tuple[int, float]]]) -> tuple[Trend, ...]:
    """Every series of these runs that has a better side; what users feel first."""
    by_number = {r.number: r for r in runs if r.number is not None}
    found = []
    for name, rows in series.items():
        metric, workload, concurrency = (*name.split("|"), "", "")[:3]
        kept = [(n, v) for n, v in rows if n in by_number]
        if metric not in METRICS or not kept:
            continue
        values = tuple(v for _, v in kept)
        turns = tuple(_turn(c, metric, [by_number[n] for n, _ in kept]) for c in changes(values))
        found.append(Trend(metric, workload, float(concurrency or 0), tuple(n for n, _ in kept), values, turns))
    order = list(METRICS)
    return tuple(sorted(found, key=lambda t: (order.index(t.metric), t.workload, t.concurrency)))


def _turn(change: Change, metric: str, runs: Sequence[Run]) -> Turn:
    run, before = runs[change.at], runs[change.at - 1]
    return Turn(change, run, before, speed_factor(metric, change.before, change.after), changed(before, run))


def changed(was: Run, now: Run) -> tuple[tuple[str, str | None, str | None], ...]:
    """Settings and versions that differ between two runs."""
    keys = sorted({*was.facts, *now.facts})
    return tuple((k, was.facts.get(k), now.facts.get(k)) for k in keys if was.facts.get(k) != now.facts.get(k))
