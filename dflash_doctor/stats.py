"""The one opinion about size and chance.

Everything is judged as a speed factor in log space: below 1 is slower, whichever way the metric points. The procedure
is that of MEASURING.md 4.4: paired by prompt where prompts have names, a server start ("boot") as a noise level of its
own, a 98 % interval held against two margins. A value that stands alone is held against the noise such values have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from dflash_doctor.metrics import METRICS, speed_factor
from dflash_doctor.model import Sample, Verdict

REGRESSED = 0.03  # delta_min: "worse" when the whole interval lies beyond this (MEASURING.md 4.4)
OK = 0.05  # delta_max: "same" when the whole interval lies within this (same place)
ALPHA = 0.02  # two-sided; one-sided 0.01
BOOT_NOISE = 0.03  # sd of log step time between two starts of one server, assumed when the baseline has one boot
NIGHTLY_ALPHA = 0.001  # of a gate that looks every night, and of change points (otava's default; MEASURING.md 4.4)
AT_ONCE = 0.10  # a loss larger than this is a regression in one night; a smaller one takes two (same place)
MIN_BOOTS = 3  # starts a side, for their own spread to be usable
MIN_PAIRS = 4  # fewer pairs have no usable spread: a t of three degrees of freedom needs a 4.5-fold standard error


@dataclass(frozen=True)
class Judged:
    """What two groups of values say about each other."""

    factor: float
    low: float | None
    high: float | None
    verdict: Verdict
    was: float
    now: float
    n_was: int
    n_now: int
    p: float | None = None
    paired: bool = False
    note: str = ""


def judge(metric: str, was: Sequence[Sample], now: Sequence[Sample], boot_noise: float = BOOT_NOISE) -> Judged:
    """Hold the samples of one metric, taken under like conditions, against each other. Both sides must have some."""
    row = METRICS[metric]
    before, after = _centre([s.value for s in was]), _centre([s.value for s in now])
    if row.better == "neither":
        return Judged(1.0, None, None, "same", before, after, len(was), len(now), note="not a speed")
    positive = all(s.value > 0 for s in (*was, *now))
    if _named_boots(was) & _named_boots(now):
        boot_noise = 0.0  # the same server start on both sides: nothing was restarted in between

    def logs(values: Sequence[float]) -> list[float]:
        return [math.log(speed_factor(metric, before, v)) for v in values]

    pairs = _pairs(metric, was, now) if positive else []
    if len(pairs) >= MIN_PAIRS:
        judged = _judge_logs(pairs, [0.0], boot_noise, _boots(was), _boots(now), paired=True)
        return _with(judged, before, after, len(was), len(now))
    starts = [_by_boot(was), _by_boot(now)] if positive else [[], []]
    if min(map(len, starts)) >= MIN_BOOTS:
        # several starts on both sides: their spread is the boot noise, measured instead of assumed
        judged = _judge_logs(logs(starts[1]), logs(starts[0]), 0.0, 1, 1, paired=False)
        return _with(judged, before, after, len(was), len(now))
    if min(len(was), len(now)) < MIN_PAIRS or not positive:
        return _lone(metric, before, after, len(was), len(now))
    later, earlier = logs([s.value for s in now]), logs([s.value for s in was])
    judged = _judge_logs(later, earlier, boot_noise, _boots(was), _boots(now), paired=False)
    return _with(judged, before, after, len(was), len(now))


def verdict_of(low: float, high: float) -> Verdict:
    """The word for an interval of the speed factor. Minor is tested before worse and same (CONTRACTS.md §4)."""
    if high < 1 and low > 1 - OK:
        return "minor"
    if high < 1 - REGRESSED:
        return "worse"
    if low > 1 / (1 - REGRESSED):
        return "better"
    if low > 1 - OK:
        return "same"
    return "unsure"


def _judge_logs(
    after: Sequence[float], before: Sequence[float], boot_noise: float, boots_was: int, boots_now: int, *, paired: bool
) -> Judged:
    """An interval of mean(after) - mean(before); for pairs `after` holds the differences and `before` a zero."""
    # Student's t; scipy.stats, which wraps these two, takes half a second more to load
    from scipy.special import stdtr, stdtrit

    centre = fmean(after) - fmean(before)
    parts = [(_variance(after) / len(after), len(after) - 1)]
    if not paired:
        parts.append((_variance(before) / len(before), len(before) - 1))
    sampling = sum(v for v, _ in parts)
    # Welch-Satterthwaite; the assumed boot noise is a known constant and adds no uncertainty of its own
    df = sampling**2 / sum(v**2 / n for v, n in parts if v > 0) if sampling > 0 else 1e6
    boots = boot_noise**2 * (1 / boots_was + 1 / boots_now)
    se = math.sqrt(sampling + boots)
    df *= ((sampling + boots) / sampling) ** 2 if sampling > 0 else 1.0
    if se == 0:
        return Judged(math.exp(centre), math.exp(centre), math.exp(centre), "same", 0, 0, 0, 0, paired=paired)
    half = float(stdtrit(df, 1 - ALPHA / 2)) * se
    low, high = math.exp(centre - half), math.exp(centre + half)
    p = float(2 * stdtr(df, -abs(centre) / se))
    return Judged(math.exp(centre), low, high, verdict_of(low, high), 0, 0, 0, 0, p=p, paired=paired)


def _with(j: Judged, was: float, now: float, n_was: int, n_now: int) -> Judged:
    how = "paired by prompt" if j.paired else "not paired"
    p = "" if j.p is None else "p<0.001 " if j.p < 0.001 else f"p={j.p:.2g} "
    return replace(j, was=was, now=now, n_was=n_was, n_now=n_now, note=f"{p}n={n_was}+{n_now} {how}")


def _lone(metric: str, was: float, now: float, n_was: int, n_now: int) -> Judged:
    """A value that stands alone says "worse" only beyond any noise such values have (CONTRACTS.md §2)."""
    row = METRICS[metric]
    factor = speed_factor(metric, was, now)
    note = (
        f"one value against one: under {row.noise:.0%} says nothing"
        if n_was == n_now == 1
        else (f"{n_was} value{'s' * (n_was > 1)} against {n_now}: under {row.noise:.0%} says nothing")
    )
    verdict: Verdict
    if factor < 1 - row.noise:
        verdict = "worse"
    elif factor > 1 / (1 - row.noise):
        verdict = "better"
    elif 1 - row.noise / 3 <= factor <= 1 / (1 - row.noise / 3):
        verdict = "same"
    else:
        verdict = "unsure"
    return Judged(factor, None, None, verdict, was, now, n_was, n_now, note=note)


def _pairs(metric: str, was: Sequence[Sample], now: Sequence[Sample]) -> list[float]:
    """Log speed factors of the prompts that both sides ran; several runs of a prompt are averaged first."""
    before, after = _by_prompt(was), _by_prompt(now)
    return [math.log(speed_factor(metric, before[k], after[k])) for k in before if k in after]


def _by_prompt(samples: Sequence[Sample]) -> dict[str, float]:
    groups: dict[str, list[float]] = {}
    for s in samples:
        if s.prompt is not None:
            groups.setdefault(s.prompt, []).append(math.log(s.value))
    return {k: math.exp(fmean(v)) for k, v in groups.items()}


def _named_boots(samples: Sequence[Sample]) -> set[str]:
    """Server starts that have a name of their own; "1", "2" only count the starts of one side."""
    return {s.boot for s in samples if s.boot and not s.boot.isdigit()}


def _by_boot(samples: Sequence[Sample]) -> list[float]:
    """One value per server start, where the samples name their starts."""
    groups: dict[str, list[float]] = {}
    for s in samples:
        if s.boot is not None:
            groups.setdefault(s.boot, []).append(math.log(s.value))
    return [math.exp(fmean(v)) for v in groups.values()]


def _boots(samples: Sequence[Sample]) -> int:
    return len({s.boot for s in samples})


def _variance(xs: Sequence[float]) -> float:
    return stdev(xs) ** 2 if len(xs) > 1 else 0.0


def _centre(xs: Sequence[float]) -> float:
    """Geometric mean of positive values, else the arithmetic one."""
    return math.exp(fmean(map(math.log, xs))) if all(x > 0 for x in xs) else fmean(xs)
