"""What is left beside the findings: whether speculation pays, losses without a cause, what to put back first."""

from __future__ import annotations

from collections.abc import Sequence

from dflash_doctor.model import BreakEven, Diagnosis, Lead, Unexplained
from dflash_doctor.report.figures import counted, times
from dflash_doctor.report.hosttext import plain
from dflash_doctor.report.words import engine, said

PAYS = 1.02  # a gain nearer to one than this is none


def meter(d: Diagnosis) -> str:
    """`speculation pays at most 2.8x: 2.92 tokens per step, a drafted step costs at least 1.04 plain ones`."""
    b = d.break_even
    if b is None or (d.verdict == "healthy" and b.kept > b.cost):
        return ""
    depth = f", {b.depth} drafted" if b.depth else ""
    least = "" if b.measured else "at least "
    costs = f"{b.kept:.2f} tokens per step{depth}, a drafted step costs {least}{b.cost:.2f} plain ones"
    return f"speculation {_pays(b)}: {costs}{_length(b)}"


def _pays(b: BreakEven) -> str:
    ratio = b.kept / b.cost
    if ratio < 1:
        return f"does not pay, turning it off gives {'about' if b.measured else 'at least'} {times(1 / ratio)}"
    if ratio < PAYS:
        return "gives nothing"
    return f"pays {'' if b.measured else 'at most '}{times(ratio)}"


def _length(b: BreakEven) -> str:
    if b.best_depth is None or b.best_gain is None or b.best_gain < PAYS:
        return ""
    return f"; drafting {b.best_depth} would give about {times(b.best_gain)}"


def unexplained(u: Unexplained) -> str:
    """`step time 0.67x`."""
    return f"{plain(u.part)} {times(u.factor)}"


def suspects(u: Unexplained) -> list[tuple[str, str]]:
    """What was looked at: a line for each that something speaks for, one for those cleared, one for those not seen."""
    rows = [("differs", f"{plain(s.cause)}: {plain(s.words)}") for s in u.suspects if s.speaks]
    cleared = ", ".join(plain(s.cause) for s in u.suspects if s.speaks is False)
    unseen = ", ".join(f"{plain(s.cause)} ({plain(s.words)})" for s in u.suspects if s.speaks is None)
    return [*rows, *([("as before", cleared)] if cleared else []), *([("not seen", unseen)] if unseen else [])]


def plan(d: Diagnosis) -> str:
    """How to find the guilty difference with the fewest restarts."""
    if d.bisection is None:
        return ""
    first = len(d.bisection.first)
    what = "the first of these" if first == 1 else f"the first {first} of these together"
    restarts = counted(max(round(d.bisection.restarts), 1), "restart")
    return f"put back {what} and measure: fast again, it is among them; else among the rest. About {restarts} in all"


def carry(d: Diagnosis) -> list[tuple[str, str, str]]:
    """What this engine or release has to be told: title, then and now, what to write or why not."""
    return [(plain(x.title), f"{_value(x.was)} -> {_value(x.now)}", plain(x.write or x.why)) for x in d.carry]


def _value(x: object) -> str:
    return "not set" if x is None else plain(said(x))


def carry_title(d: Diagnosis) -> str:
    """`To carry over from SGLang 0.5.10, the likeliest to cost first`."""
    was = d.comparison.was
    return f"To carry over from {engine(was) if was and engine(was) else 'the tuned side'}, the likeliest to cost first"


def differences(leads: Sequence[Lead]) -> list[str]:
    """The differences that no finding speaks of."""
    return [plain(x.what) for x in leads]
