"""Where the speed went: the factors whose product is the slow-down, as a sentence, as bars and as shares of causes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dflash_doctor.metrics import METRICS
from dflash_doctor.model import Diagnosis, Finding, Part, Slowdown
from dflash_doctor.physics import TOKENS, tokens_per_step
from dflash_doctor.report.figures import bare, label, percent, times, value
from dflash_doctor.report.hosttext import plain
from dflash_doctor.report.left import meter
from dflash_doctor.report.words import then

WHOLE = (0.95, 1.05)  # a share that is the whole, as far as such numbers go
FELT = 0.97  # a factor nearer to one than this needs no cause


def sentence(slow: Slowdown) -> str:
    """`0.24x = tokens per step 0.36x · step time 0.67x`."""
    parts = " · ".join(f"{part_name(p)} {times(p.factor)}" for p in slow.parts)
    return f"{times(slow.factor)}{between(slow.low, slow.high)} = {parts}" if parts else times(slow.factor)


def part_name(p: Part) -> str:
    return plain(p.name)


def between(low: float | None, high: float | None) -> str:
    """` (0.23 to 0.25)`, when there is an interval."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f" ({times(low)[:-1]} to {times(high)[:-1]})"


def notes(d: Diagnosis) -> tuple[str, ...]:
    """What the factors rest on."""
    slow = d.slowdown
    if slow is None:
        return ()
    said = [f"{part_name(p)}: {plain(p.note)}" for p in slow.parts if p.note]
    if any(p.name == TOKENS for p in slow.parts) and d.comparison.was is not None:
        now, was = (tokens_per_step(s, slow.concurrency) for s in (d.now, d.comparison.was))
        if now is not None and was is not None:
            said.insert(0, f"{TOKENS}: {now:.2f} now, {was:.2f} in the baseline")
    said += [f"{label(slow.metric)}: {plain(slow.note)}"] if slow.note else []
    return (*said, *((meter(d),) if meter(d) else ()))


@dataclass(frozen=True)
class Bar:
    """One row of the waterfall: from one value to the next, as shares of the longest."""

    name: str
    shown: str  # the value after this row
    begin: float
    end: float
    factor: str = ""
    by: str = ""


def waterfall(d: Diagnosis) -> tuple[Bar, ...]:
    """From the tuned value to today's, one factor at a time; empty where one factor is all there is."""
    slow = d.slowdown
    if (
        slow is None
        or len(slow.parts) < 2
        or not all(_drawable(x) for x in (slow.was, slow.now, *(p.factor for p in slow.parts)))
    ):
        return ()
    is_time = slow.metric in METRICS and METRICS[slow.metric].better == "lower"
    steps = [slow.was]
    for p in slow.parts:
        steps.append(steps[-1] / p.factor if is_time else steps[-1] * p.factor)
    top = max(*steps, slow.now)
    now = value(slow.metric, slow.now)
    rows = [Bar(then(d), value(slow.metric, slow.was), slow.was / top, slow.was / top)]
    for part, before, after in zip(slow.parts, steps, steps[1:], strict=False):
        shown, factor = bare(slow.metric, after), times(part.factor)
        rows.append(Bar(part_name(part), shown, before / top, after / top, factor, _by(part, d.findings)))
    return (*rows, Bar("now", now, slow.now / top, slow.now / top))


def _by(part: Part, findings: Sequence[Finding]) -> str:
    """Which finding a part is put down to, by its number in the report."""
    ranks = [i for i, f in enumerate(findings, 1) if f.cause == part.cause]
    if ranks:
        return f"cause {ranks[0]}"
    return "no cause named" if part.factor < FELT else ""


def _drawable(x: float) -> bool:
    return math.isfinite(x) and x > 0


def share(f: Finding, slow: Slowdown | None) -> str:
    """`71% of the slow-down: 0.36x of the 0.24x`; "at most" where several causes compete for it."""
    if f.impact is None:
        return ""
    most = "at most " if f.impact.bound else ""
    factor = f"{times(f.impact.factor)}{between(f.impact.low, f.impact.high)}"
    if slow is None or not 0 < f.impact.factor < 1 or not 0 < slow.factor < 1:
        return f"{most}{factor} of the speed"
    part = math.log(f.impact.factor) / math.log(slow.factor)
    if part > WHOLE[1]:
        return f"{most}more than the whole slow-down: {factor} of {times(slow.factor)}, something else got faster"
    if part > WHOLE[0]:
        return f"{most}all of the slow-down: {factor}"
    return f"{most}{percent(part)} of the slow-down: {factor} of {times(slow.factor)}"
