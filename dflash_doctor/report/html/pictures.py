"""Pictures of a report: static SVG from Vega-Lite, with what they show as alt text.

Colours are names of the page's style sheet, so that one picture serves light, dark and paper; the two sides differ in
dash and shape as well. Pictures are drawn narrow, so that a phone need not shrink them; a wide screen sets two abreast.
No text of a host goes into a picture: only numbers and our own words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import altair as alt
import vl_convert

from dflash_doctor.model import Diagnosis, Interval, Snapshot
from dflash_doctor.physics import TOKENS, tokens_per_step
from dflash_doctor.report.figures import number, percent
from dflash_doctor.report.html import series
from dflash_doctor.report.html.series import Points
from dflash_doctor.report.words import then

WIDTH, HEIGHT = 340, 150  # with its axis a picture is about 400 wide: a phone's screen
ROOM = 1.08  # above the highest value
UNITS = (("hours", 3600), ("minutes", 60), ("seconds", 1))
GPUS = 16  # lines in one picture; of more the rest stands in the table
NOW, WAS, SOFT, INK, LINE = "var(--now)", "var(--was)", "var(--soft)", "var(--ink)", "var(--line)"
MARK_NAMES = re.compile(r' (?:class|role|aria-[a-z]+)="[^"]*"| pointer-events="none"')  # not needed by the page


@dataclass(frozen=True)
class Picture:
    """One picture: `alt` says in words what it shows, `sides` which lines there are."""

    title: str
    svg: str
    alt: str
    was: str = ""  # what the dashed line is, where there is one
    note: str = ""


def pictures(d: Diagnosis) -> tuple[Picture, ...]:
    """Those that the capture has numbers for."""
    drawn = (
        _course(d, "Output speed over time", "tok/s", series.speed),
        _course(d, "Tokens kept per pass over time", "tokens per pass", series.kept, _tokens_then(d)),
        _acceptance(d),
        _gpus(d, "SM clock", "clocks.sm", "MHz", "clocks.max.sm", "its maximum"),
        _gpus(d, "Power", "power.draw", "W", "power.limit", "its limit"),
    )
    return tuple(p for p in drawn if p is not None)


# -- over time --------------------------------------------------------------------------------------------------------


def _course(
    d: Diagnosis, title: str, unit: str, of: Callable[[Interval], float | None], level: float | None = None
) -> Picture | None:
    now = series.over_time(d.now.intervals, of)
    if not now:
        return None
    was_said = d.comparison.was.intervals if d.comparison.was is not None else ()
    # minutes and line numbers do not share an axis
    alike = series.timed(was_said) == series.timed(d.now.intervals)
    was = series.over_time(was_said, of) if alike else ()
    x = "lines of the log"
    if series.timed(d.now.intervals):
        x, now, was = _scaled(now, was)
    layers = [] if was or level is None else [_rule(level)]
    layers.append(_line(now, NOW, [1, 0], dots=len(now) <= 60))
    # the dashes lie above: where both sides are alike both are seen
    layers += [_line(was, WAS, [5, 3])] if was else []
    was_words = f"{then(d)}: {_range(was)}" if was else f"{then(d)}: {number(level)}" if level is not None else ""
    said = "; ".join(w for w in (f"now: {_range(now)} {unit}", was_words) if w)
    top = max((*(y for _, y in (*now, *was)), level or 0.0)) * ROOM
    svg = _svg(layers, x, unit, text := f"{title}. {said}.", top)
    return Picture(title, svg, text, then(d) if was or level is not None else "", "as the engine's log says")


def _scaled(now: Points, was: Points) -> tuple[str, Points, Points]:
    """Seconds as they are, or as minutes or hours where the course is that long."""
    longest = max(x for x, _ in (*now, *was))
    unit, size = next((u, n) for u, n in UNITS if longest >= 3 * n or n == 1)
    now, was = (tuple((x / size, y) for x, y in line) for line in (now, was))
    return unit, now, was


def _tokens_then(d: Diagnosis) -> float | None:
    """The tuned side's tokens per pass, where it has no log of its own."""
    if d.comparison.was is None or not d.slowdown or not any(p.name == TOKENS for p in d.slowdown.parts):
        return None
    kept = tokens_per_step(d.comparison.was, d.slowdown.concurrency)
    return kept if kept is not None and series.drawable(kept) else None


def _range(points: Points) -> str:
    ys = [y for _, y in points]
    low, high = number(min(ys)), number(max(ys))
    return low if low == high else f"{low} to {high}"


# -- acceptance by position -------------------------------------------------------------------------------------------


def _acceptance(d: Diagnosis) -> Picture | None:
    now, was = series.acceptance(d.now), series.acceptance(d.comparison.was)
    if not now:
        return None
    layers = [
        _line(_numbered(curve), colour, dash, dots=True)
        for curve, colour, dash in ((now, NOW, [1, 0]), (was, WAS, [5, 3]))
        if curve
    ]
    told = [f"{name}: {', '.join(map(percent, curve))}" for name, curve in (("now", now), (then(d), was)) if curve]
    title = "Acceptance by draft position"
    text = f"{title}: share of drafts accepted up to each position. {'; '.join(told)}."
    svg = _svg(layers, "position in the draft", "share accepted", text, 1.0, whole=True, shares=True)
    return Picture(title, svg, text, then(d) if was else "", "share of drafts accepted up to a position")


def _numbered(curve: Sequence[float]) -> Points:
    return tuple((float(i), p) for i, p in enumerate(curve, 1))


# -- GPUs -------------------------------------------------------------------------------------------------------------


def _gpus(d: Diagnosis, title: str, key: str, unit: str, bound: str, bound_words: str) -> Picture | None:
    lines = dict(list(series.gpu_over_time(d.now, key).items())[:GPUS])
    if not lines:
        return None
    bounds = d.now.gpu_numbers(bound, None)
    level = max((bounds[i] for i in lines if i in bounds and series.drawable(bounds[i])), default=None)
    layers = [_rule(level)] if level is not None else []
    layers += [_shade(d.now)] if any(r.load for r in d.now.readings) else []
    layers += [_line(line, NOW, [1, 0], opacity=1.0 if len(lines) == 1 else 0.7) for line in lines.values()]
    said = "; ".join(f"GPU {i} {_range(line)} {unit}" for i, line in lines.items())
    text = f"{title} of each GPU. {said}{f'; {bound_words} {number(level)}' if level is not None else ''}."
    loaded = "shaded: under load" if any(r.load for r in d.now.readings) else "not known when there was load"
    many = f"{len(lines)} GPUs, " if len(lines) > 1 else ""
    top = max((*(y for line in lines.values() for _, y in line), level or 0.0)) * ROOM
    svg = _svg(layers, "seconds", unit, text, top)
    return Picture(f"{title} over time", svg, text, bound_words if level is not None else "", f"{many}{loaded}")


def _shade(s: Snapshot) -> alt.Chart:
    """The stretches in which there was load."""
    moments = sorted({(r.t, bool(r.load)) for r in s.readings if series.drawable(r.t)})
    start = moments[0][0]
    spans: list[dict[str, float]] = []
    for (t, load), (after, _) in pairwise(moments):
        if load and spans and spans[-1]["end"] == t - start:
            spans[-1]["end"] = after - start
        elif load:
            spans.append({"begin": t - start, "end": after - start})
    data = alt.InlineData(values=spans or [{"begin": 0.0, "end": 0.0}])
    shade: alt.Chart = alt.Chart(data).mark_rect(color=SOFT, opacity=0.18).encode(x="begin:Q", x2="end:Q")
    return shade


# -- Vega-Lite --------------------------------------------------------------------------------------------------------


def _line(points: Points, colour: str, dash: Sequence[float], *, dots: bool = False, opacity: float = 1.0) -> alt.Chart:
    data = alt.InlineData(values=[{"x": round(x, 4), "y": round(y, 4)} for x, y in points])
    point: Any = alt.OverlayMarkDef(color=colour, size=22, filled=True) if dots else False
    line: alt.Chart = alt.Chart(data).mark_line(
        color=colour, strokeDash=list(dash), strokeWidth=2, point=point, opacity=opacity
    ).encode(x="x:Q", y="y:Q")  # fmt: skip
    return line


def _rule(level: float) -> alt.Chart:
    """The other side, or a limit, as a level across the picture."""
    data = alt.InlineData(values=[{"y": level}])
    rule: alt.Chart = alt.Chart(data).mark_rule(color=WAS, strokeDash=[5, 3], strokeWidth=1.5).encode(y="y:Q")
    return rule


def _svg(
    layers: Sequence[alt.Chart], x: str, y: str, text: str, top: float, *, whole: bool = False, shares: bool = False
) -> str:
    """The picture as an `svg` element; it makes no request of any kind."""
    count: dict[str, Any] = {"tickMinStep": 1, "format": "d"} if whole else {}
    share: dict[str, Any] = {"format": "%"} if shares else {}
    axis_x = alt.X("x:Q", title=x, scale=alt.Scale(nice=False), axis=alt.Axis(grid=False, tickCount=6, **count))
    up = alt.Scale(domain=[0, top or 1.0], nice=False)
    axis_y = alt.Y("y:Q", title=y, scale=up, axis=alt.Axis(tickCount=5, **share))
    drawn = [*layers[:-1], layers[-1].encode(x=axis_x, y=axis_y)]  # the last is a line; the axes are those of all
    chart = alt.layer(*drawn).properties(width=WIDTH, height=HEIGHT, background="transparent").configure(
        aria=False, font="system-ui, sans-serif", view=alt.ViewConfig(stroke=None), axis=alt.AxisConfig(
            labelColor=INK, titleColor=INK, gridColor=LINE, domainColor=LINE, tickColor=LINE, labelFontSize=12,
            titleFontSize=12, titleFontWeight="normal",
        ),
    )  # fmt: skip
    raw = vl_convert.vegalite_to_svg(chart.to_dict(), allowed_base_urls=[])
    return _labelled(MARK_NAMES.sub("", raw), text)


def _labelled(svg: str, text: str) -> str:
    from markupsafe import escape

    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(text)}" ', 1)
