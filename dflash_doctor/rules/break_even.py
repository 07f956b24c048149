"""Does speculation pay here? What it keeps per step, what a drafted step costs, and what another length would give.

    speed with drafting / speed without = A / R

A is tokens per step, bonus counted; R the time of a drafted step over that of a plain one. R is measured where one side
ran without drafting under like conditions; else it is bounded from below by what drafting costs at the least.
"""

from __future__ import annotations

from dflash_doctor.model import BreakEven, Comparison
from dflash_doctor.physics import DECODE, best_depth
from dflash_doctor.rules.drafting import COPIES, PASS, SERIAL, Drafting, drafting


def break_even(c: Comparison) -> BreakEven | None:
    """The meter; None where nothing is drafted or it is not known how much is kept."""
    now = drafting(c.now)
    if not now.on or now.length is None or now.method is None:
        return None
    measured = _measured(c, now)
    cost = measured if measured is not None else least_cost(now)
    depth, gain = best_length(now)
    return BreakEven(
        kept=now.length,
        cost=cost,
        measured=measured is not None,
        depth=now.depth,
        best_depth=depth if gain > 1.01 else None,
        best_gain=gain if gain > 1.01 else None,
    )


def _measured(c: Comparison, now: Drafting) -> float | None:
    """R from a baseline that did not draft, same engine: A over the factor that drafting made of its speed."""
    if c.was is None or c.was.value("spec.method") != "none" or c.was.engine != c.now.engine or now.length is None:
        return None
    speeds = [d for d in c.delta(*DECODE) if d.concurrency in (None, 1, 1.0)]
    return now.length / speeds[0].factor if speeds else None


def least_cost(d: Drafting) -> float:
    """R at the least: each pass of a serial drafter, or the one pass of a block drafter, beside one of the target."""
    if d.method in COPIES:
        return 1.0
    return 1 + PASS * (d.depth or 1 if d.method in SERIAL else 1)


def best_length(d: Drafting) -> tuple[int, float]:
    """The fastest draft length of a serial drafter by A(K) / (1 + K x PASS), and by what factor it beats today's."""
    if len(d.curve) < 2 or d.method not in SERIAL:
        return len(d.curve), 1.0
    speeds = [a / (1 + k * PASS) for k, a in enumerate(best_depth(d.curve))]
    best = max(range(1, len(speeds)), key=speeds.__getitem__)
    return best, speeds[best] / speeds[-1]
