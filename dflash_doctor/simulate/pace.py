"""How fast and how well the scripted engine decodes: step times and accepted drafts, seeded.

Both are exact on the average over a few steps, so that a client can be held against the script: noise is mean-one, and
accepted counts are drawn evenly from their distribution (a golden-ratio sequence) instead of by luck.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from dflash_doctor.simulate.scenario import Acceptance, Kind, Timing

GOLDEN = (math.sqrt(5) - 1) / 2  # the irrational whose multiples are spread most evenly over 0..1


class Pace:
    """Step and prefill times of one server start."""

    def __init__(self, timing: Timing, seed: int, boot: int = 0) -> None:
        self._timing = timing
        self._random = random.Random(f"steps {seed} {boot}")
        self.boot = _wander(random.Random(f"boot {seed} {boot}"), timing.boot_noise)

    def step_s(self, batch: int, context: int) -> float:
        """One decode step of `batch` requests that hold `context` tokens together."""
        ms = at(self._timing.step_time_ms, batch) + self._timing.context_ms_per_1k * context / 1000
        return ms / 1000 * self.boot * _wander(self._random, self._timing.noise)

    def prefill_s(self, tokens: int) -> float:
        """Computing `tokens` prompt tokens."""
        s = tokens / self._timing.prefill_tok_s + self._timing.prefill_base_ms / 1000
        return s * self.boot * _wander(self._random, self._timing.noise)


def at(table: dict[int, float], batch: int) -> float:
    """The table's value at `batch`: straight lines between its points, the last slope goes on."""
    points = sorted(table.items())
    if batch <= points[0][0] or len(points) == 1:
        return points[0][1]
    after = next((i for i, (x, _) in enumerate(points) if batch <= x), len(points) - 1)
    (x0, y0), (x1, y1) = points[after - 1], points[after]
    return y0 + (y1 - y0) * (batch - x0) / (x1 - x0)


def _wander(chance: random.Random, sigma: float) -> float:
    return math.exp(chance.gauss(0.0, sigma) - sigma * sigma / 2) if sigma else 1.0


class Draft:
    """What becomes of the drafts of one request."""

    def __init__(self, acceptance: Acceptance, kind: Kind | None, mark: int, seed: int) -> None:
        self._acceptance = acceptance
        chances, length = (kind.chances, kind.length) if kind else (None, None)
        if chances is None and length is None:
            chances, length = acceptance.chances, acceptance.length
        self._chances = spread_out(chances, length, acceptance.depth)
        if acceptance.spread:
            # the prompt alone decides, not the seed: two runs of one prompt are a pair
            times = _wander(random.Random(mark), acceptance.spread)
            self._chances = tuple(min(c * times, 1.0) for c in self._chances)
        self._reach = reach(self._chances)
        self._fallen = reach([c * acceptance.falls.to for c in self._chances]) if acceptance.falls else self._reach
        self._turn = random.Random(f"draft {seed} {mark}").random()

    def accepted(self, context: int) -> int:
        """How many drafted tokens the next verify step accepts."""
        self._turn = (self._turn + GOLDEN) % 1.0
        falls = self._acceptance.falls
        curve = self._fallen if falls and context > falls.after else self._reach
        return sum(1 for p in curve if p > self._turn)


def spread_out(chances: Sequence[float] | None, length: float | None, depth: int) -> tuple[float, ...]:
    """One conditional chance per drafted position."""
    if chances is not None:
        return tuple(chances[min(i, len(chances) - 1)] for i in range(depth))
    low, high = 0.0, 1.0
    for _ in range(60):  # bisection: 1 + p + p^2 + ... + p^depth = length
        p = (low + high) / 2
        low, high = (p, high) if sum(p**i for i in range(depth + 1)) < (length or 1.0) else (low, p)
    return (high,) * depth


def reach(chances: Sequence[float]) -> tuple[float, ...]:
    """Chance that position 0..i are all accepted, by i: what engines call the per-position acceptance rate."""
    reached, curve = 1.0, []
    for chance in chances:
        reached *= chance
        curve.append(reached)
    return tuple(curve)
