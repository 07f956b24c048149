"""Where a series of nights changed its level: e-divisive split points, kept while a t-test believes them.

The split is that of Matteson & James, "A Nonparametric Approach for Multiple Change Point Analysis of Multivariate
Data" (2014): the point where the mean distance between both sides most exceeds the mean distances within them. As in
"Hunter" (Fleming et al. 2023) it looks through windows, so that an old large step does not hide a new small one, takes
candidates at ten times the level of significance, and then drops the weakest, again and again, until all that are left
hold. Student's t in place of permutations makes the answer the same every time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import numpy as np
import numpy.typing as npt

from dflash_doctor.stats import NIGHTLY_ALPHA, REGRESSED

WINDOW = 50  # values looked at together
FIRST_PASS = 10.0  # candidates may be so much less sure
FEWEST = 4  # values: with fewer there is no spread on both sides


@dataclass(frozen=True)
class Change:
    """The level changed between `at - 1` and `at`."""

    at: int  # index of the first value of the new level
    before: float  # mean of the level before
    after: float
    p: float

    @property
    def size(self) -> float:
        """The larger of the two relative changes, so that halving and doubling are alike."""
        if self.before == 0 or self.after == 0:
            return 0.0 if self.before == self.after else math.inf
        return max(abs(self.after / self.before - 1), abs(self.before / self.after - 1))


def changes(values: Sequence[float], *, p: float = NIGHTLY_ALPHA, least: float = REGRESSED) -> tuple[Change, ...]:
    """The change points of a series in order: significant at `p`, and larger than `least` (relative)."""
    series = np.asarray(values, dtype=float)
    points: set[int] = set()
    start = 0
    while start < len(series):
        found = _divided(series, start, min(start + WINDOW, len(series)), p * FIRST_PASS)
        points.update(found)
        start = max([start + WINDOW // 2, *found])
    return _kept(series, sorted(points), p, least)


def _kept(series: npt.NDArray[np.float64], points: list[int], p: float, least: float) -> tuple[Change, ...]:
    while True:
        found = _tested(series, points)
        weak = max(found, key=lambda c: c.p, default=None)
        if weak is None:
            return ()
        if weak.p < p:
            weak = min(found, key=lambda c: c.size)
            if weak.size > least:
                return tuple(found)
        points.remove(weak.at)


def _tested(series: npt.NDArray[np.float64], points: list[int]) -> list[Change]:
    """Each point, judged by the stretches next to it."""
    ends = [0, *points, len(series)]
    return [
        Change(at, fmean(series[a:at]), fmean(series[at:b]), _p(series[a:at], series[at:b]))
        for a, at, b in zip(ends, points, ends[2:], strict=False)
    ]


def _divided(series: npt.NDArray[np.float64], start: int, end: int, p: float) -> list[int]:
    """Split the window where it is most divided, as long as a split is believed."""
    points: list[int] = []
    while True:
        ends = [start, *points, end]
        splits = [s for s in (_split(series[a:b], a) for a, b in pairwise(ends)) if s is not None]
        if not splits:
            return points
        _, at = max(splits)
        a, b = max(e for e in ends if e < at), min(e for e in ends if e > at)
        if _p(series[a:at], series[at:b]) >= p:
            return points
        points = sorted([*points, at])


def _split(part: npt.NDArray[np.float64], offset: int) -> tuple[float, int] | None:
    """The largest divergence over all splits [0, tau) | [tau, kappa), and where: Q of Matteson & James, alpha 1."""
    n = len(part)
    if n < 2:
        return None
    # sums of distances over rectangles: s[i, j] = sum of |x_a - x_b| for a < i, b < j
    s = np.zeros((n + 1, n + 1))
    s[1:, 1:] = np.abs(part[:, None] - part[None, :]).cumsum(0).cumsum(1)
    tau, kappa = np.arange(1, n)[:, None], np.arange(2, n + 1)[None, :]
    whole = np.diag(s)
    left, right = tau, kappa - tau
    between = s[tau, kappa] - whole[tau]
    within_left = whole[tau] / 2
    within_right = (whole[kappa] - s[tau, kappa] - s[kappa, tau] + whole[tau]) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        of_left = np.where(left > 1, within_left * right / (left - 1), 0.0)
        of_right = np.where(right > 1, within_right * left / (right - 1), 0.0)
        q = 2 / kappa * (between - of_left - of_right)
    q = np.where(right > 0, q, -np.inf)
    i, j = np.unravel_index(int(np.argmax(q)), q.shape)
    return float(q[i, j]), int(i) + 1 + offset


def _p(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> float:
    """Two-sided Student's t of two stretches, equal spread assumed: one value against many has a p too."""
    from scipy.stats import t as student

    n = len(left) + len(right)
    if n < FEWEST:
        return 1.0
    centre = float(left.mean() - right.mean())
    square = float(((left - left.mean()) ** 2).sum() + ((right - right.mean()) ** 2).sum())
    se = math.sqrt(square / (n - 2) * (1 / len(left) + 1 / len(right)))
    if se == 0:
        return 0.0 if centre else 1.0
    return float(2 * student.sf(abs(centre) / se, n - 2))
