"""What the rules of the gpu family ask: numbers of each GPU under load, held against the baseline's."""

from __future__ import annotations

from statistics import median
from typing import Any

from dflash_doctor import gpu_words
from dflash_doctor.model import Comparison, Evidence, GpuReading, Snapshot

DRAWS = 0.3  # of the power limit: what a card draws at the least while it serves


def loaded(s: Snapshot) -> tuple[GpuReading, ...]:
    """Readings taken under load: said so by whoever took them, or busy enough to be so (half of the time or more).

    Where nobody tells how busy the card was, its power does: idle cards draw a tenth of their limit.
    """
    said = tuple(r for r in s.readings if r.load is True)
    if said:
        return said
    return tuple(r for r in s.readings if r.load is None and _busy(r))


def _busy(r: GpuReading) -> bool:
    if isinstance(r.values.get("utilization.gpu"), (int, float)):
        return _number(r.values["utilization.gpu"], 0.0) >= 50
    draw, limit = _number(r.values.get("power.draw"), 0.0), _number(r.values.get("power.limit"), 0.0)
    return limit > 0 and draw >= DRAWS * limit


def awake(s: Snapshot) -> tuple[GpuReading, ...]:
    """Readings of cards at their full clock, however busy: they have work, or wait for the next of it."""
    return tuple(r for r in s.readings if r.load is not False and _up(r))


def _up(r: GpuReading) -> bool:
    clock, top = _number(r.values.get("clocks.sm"), 0.0), _number(r.values.get("clocks.max.sm"), 0.0)
    return top > 0 and clock >= 0.9 * top


def idle(s: Snapshot) -> tuple[GpuReading, ...]:
    """Readings that were said to be without load."""
    return tuple(r for r in s.readings if r.load is False)


def numbers(readings: tuple[GpuReading, ...], key: str) -> dict[int, float]:
    """Median per GPU of one key, over the readings that give a number."""
    found: dict[int, list[float]] = {}
    for r in readings:
        v = r.values.get(key)
        if isinstance(v, (int, float)) and not isinstance(v, bool):
            found.setdefault(r.index, []).append(float(v))
    return {i: float(median(vs)) for i, vs in sorted(found.items())}


def reasons(readings: tuple[GpuReading, ...]) -> dict[int, frozenset[str]]:
    """Clock event reasons per GPU that were set in at least half of its readings."""
    seen: dict[int, list[tuple[str, ...]]] = {}
    for r in readings:
        raw = r.values.get("clocks_event_reasons.active")
        if isinstance(raw, (str, int)):
            seen.setdefault(r.index, []).append(gpu_words.event_reasons(raw))
    return {
        i: frozenset(w for words in rows for w in words if 2 * sum(w in other for other in rows) >= len(rows))
        for i, rows in seen.items()
    }


def reading_lines(readings: tuple[GpuReading, ...], *keys: str) -> tuple[Evidence, ...]:
    """One line per GPU with the values of these keys, as evidence."""
    out = []
    for index in sorted({r.index for r in readings}):
        mine = tuple(r for r in readings if r.index == index)
        shown = [f"{k} {v}" for k in keys if (v := _shown(mine, k)) is not None]
        if shown:
            out.append(Evidence(mine[0].source, f"GPU {index}: " + ", ".join(shown), mine[0].line))
    return tuple(out[:8])


def _shown(readings: tuple[GpuReading, ...], key: str) -> str | None:
    values = [r.values[key] for r in readings if r.values.get(key) is not None]
    if not values:
        return None
    if all(isinstance(v, (int, float)) for v in values):
        return f"{median(values):g}"
    return str(values[-1])


def fallen(c: Comparison, key: str, below: float) -> dict[int, tuple[float, float]]:
    """GPUs whose value under load is under `below` times the baseline's: index -> (was, now)."""
    if c.was is None:
        return {}
    was, now = numbers(loaded(c.was), key), numbers(loaded(c.now), key)
    return {i: (was[i], now[i]) for i in now if i in was and was[i] > 0 and now[i] < below * was[i]}


def _number(value: Any, default: float) -> float:
    return float(value) if isinstance(value, (int, float)) else default
