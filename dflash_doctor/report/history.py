"""The history of one host at a terminal: each number as a line, where it turned and what changed with that, nights."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from dflash_doctor.formats.history import HistoryFile, Series, Turn
from dflash_doctor.report.figures import counted, label, pace, times, value
from dflash_doctor.report.hosttext import plain
from dflash_doctor.report.layout import columns, hang, text_of, widest
from dflash_doctor.report.terminal import NARROWEST, VERDICT_STYLE, WIDEST

NIGHTS, CHANGED = 10, 8  # rows shown; the rest is counted
LEVELS, PLAIN_LEVELS = "▁▂▃▄▅▆▇█", "_.-:=+*#"


def render(h: HistoryFile, *, width: int, color: bool = False, encoding: str = "utf-8") -> str:
    """The whole history as text."""
    try:
        LEVELS.encode(encoding)
        levels = LEVELS
    except UnicodeEncodeError:
        levels = PLAIN_LEVELS
    return text_of(lines(h, min(max(width, NARROWEST), WIDEST), levels), color=color, encoding=encoding)


def lines(h: HistoryFile, width: int, levels: str = LEVELS) -> list[Text]:
    """The history line by line."""
    out = [Text(f"{plain(h.host)}: {counted(len(h.nights), 'run')}, {_day(h.nights[0].taken_at)} to "
                f"{_day(h.nights[-1].taken_at)}", style="bold")]  # fmt: skip
    for s in h.series:
        out += [Text(), *_series(s, width, levels)]
    shown = h.nights[-NIGHTS:]
    more = f", the last {NIGHTS} of {len(h.nights)}" if len(h.nights) > NIGHTS else ""
    out += [Text(), Text(f"runs{more}", style="bold")]
    for n in shown:
        word = n.verdict.replace("_", " ")
        says = plain(n.says).removeprefix(f"{word}: ")
        told = Text.assemble((word, VERDICT_STYLE.get(n.verdict, "bold magenta")), f"  {says}")
        if n.causes:
            told.append(f" · {', '.join(n.causes[:2])}")
        out += hang(told, width, f"  {_minute(n.taken_at)}  ")
    return out


def _series(s: Series, width: int, levels: str) -> list[Text]:
    at = f", {s.concurrency:g} at a time" if s.concurrency else ""
    out = [Text(f"{label(s.metric)}, {plain(s.workload)}{at}", style="bold")]
    ends = f"{value(s.metric, s.values[0])} to {value(s.metric, s.values[-1])}"
    if len(s.values) > 1:
        out.append(Text(f"  {spark(s.values, width - len(ends) - 6, levels)}  {ends}"))
    else:
        out.append(Text(f"  {value(s.metric, s.values[0])}"))
    for turn in s.turns:
        out += _turn(s, turn, width)
    return out


def _turn(s: Series, turn: Turn, width: int) -> list[Text]:
    moved = f"{value(s.metric, turn.before)} before, {value(s.metric, turn.after)} since"
    how = "" if turn.factor is None else f" ({pace(turn.factor)})" if turn.factor < 1 else f" ({times(turn.factor)})"
    p = "p<0.001" if turn.p < 0.001 else f"p={turn.p:.2g}"
    out = hang(f"{moved}{how}, {p}", width, f"  {_day(turn.taken_at)}  ", "")
    if not turn.changed:
        return [*out, *hang("no setting and no version that is known changed with it", width, "      ")]
    rows = [(plain(c.key), _said(c.was), "->", _said(c.now)) for c in turn.changed[:CHANGED]]
    out += columns(rows, widest(rows, width - 6), "      ")
    if len(turn.changed) > CHANGED:
        out.append(Text(f"      and {len(turn.changed) - CHANGED} more"))
    return out


def spark(values: Sequence[float], width: int, levels: str = LEVELS) -> str:
    """A line of levels from the least to the most; longer series are averaged into the room there is."""
    room = max(width, 8)
    n = min(len(values), room)
    cells = [values[i * len(values) // n : (i + 1) * len(values) // n] for i in range(n)]
    means = [sum(c) / len(c) for c in cells]
    low, high = min(means), max(means)
    # a spread of less than a tenth is drawn as such: noise must not look like mountains
    span = max(high - low, 0.1 * abs(high)) or 1.0
    base = (high + low - span) / 2
    top = len(levels) - 1
    return "".join(levels[min(max(round((m - base) / span * top), 0), top)] for m in means)


def _said(x: str | None) -> str:
    return "not known" if x is None else plain(x)


def _day(iso: str) -> str:
    return iso[:10]


def _minute(iso: str) -> str:
    return iso[:16].replace("T", " ")
