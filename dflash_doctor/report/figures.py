"""Numbers for eyes: three significant digits, thousands apart, milliseconds, "4.2x slower"."""

from __future__ import annotations

import math

from dflash_doctor.metrics import METRICS

TWICE = 0.5  # from twice as slow on a factor says more than a percent
STILL = 0.005  # a change that rounds to 0%


def number(x: float) -> str:
    """Three significant digits, whole numbers kept whole: 17.7, 3.20, 0.241, 2,154."""
    if not math.isfinite(x):
        return "no number"
    size = abs(x)
    if size >= 100:
        return f"{x:,.0f}"
    if size >= 10:
        return f"{x:.1f}"
    if size >= 1 or x == 0:
        return f"{x:.2f}" if x else "0"
    digits = 2 - math.floor(math.log10(size))
    return f"{x:.{min(digits, 12)}f}"


def percent(share: float) -> str:
    """`1.1%`, `72%`: two digits, of a share of one."""
    if not math.isfinite(share):
        return "no number"
    x = 100 * share
    return f"{x:.1f}%" if 0 < abs(x) < 9.95 else f"{x:,.0f}%"


def bare(metric: str, x: float) -> str:
    """A value of a metric without its unit, as it stands in a table."""
    if not math.isfinite(x):
        return "no number"
    row = METRICS.get(metric)
    if row is None:
        return number(x)
    if row.unit == "share":
        return percent(x)
    if metric == "kv_tokens":
        return f"{x:,.0f}"
    if row.unit == "":
        return f"{x:,g}" if x == int(x) else number(x)
    return number(x)


def unit(metric: str) -> str:
    """The unit to print behind bare values; shares carry theirs."""
    row = METRICS.get(metric)
    return "" if row is None or row.unit == "share" else row.unit


def value(metric: str, x: float) -> str:
    """`17.7 tok/s`, `1,270,042 tokens`, `56.5 ms`, `1.1%`."""
    shown = bare(metric, x)
    return f"{shown} {unit(metric)}" if unit(metric) and math.isfinite(x) else shown


def label(metric: str) -> str:
    """The name of a metric for people."""
    row = METRICS.get(metric)
    return metric if row is None else row.label


def times(factor: float) -> str:
    """A factor of a product: 0.24x, 0.012x, 12x."""
    if not math.isfinite(factor):
        return "no number"
    if factor >= 9.95:
        return f"{factor:,.0f}x"
    return f"{factor:.2f}x" if factor >= 0.0995 or factor == 0 else f"{factor:.2g}x"


def pace(factor: float) -> str:
    """A speed factor in words: `4.2x slower`, `38% slower`, `12% faster`, `as fast`."""
    if not math.isfinite(factor):
        return "far faster" if factor > 0 else "not known how much"
    if factor <= 0:
        return "at a standstill"
    if factor <= TWICE:
        return f"{_about(1 / factor)}x slower"
    if factor < 1 - STILL:
        return f"{percent(1 - factor)} slower"
    if factor >= 1 / TWICE:
        return f"{_about(factor)}x faster"
    return f"{percent(factor - 1)} faster" if factor > 1 + STILL else "as fast"


def _about(x: float) -> str:
    return f"{x:.1f}" if x < 9.95 else f"{x:,.0f}"


def counted(n: int, what: str) -> str:
    """`1 gap`, `2 gaps`."""
    if n == 1:
        return f"1 {what}"
    return f"{n:,} {what[:-1]}ies" if what.endswith("y") else f"{n:,} {what}s"
