"""When a load may stop: the prompts so far, held against the tuned side's, decide for `regressed` or for `ok`.

Looks after 8, 16, 24 and 32 prompts, and at the end of each further pass, with O'Brien and Fleming's bounds of a
one-sided 0.01 test: z_k = C sqrt(N / n_k). A t statistic may not be held against bounds of z, which at eight prompts
makes many false alarms, so each bound is turned into its nominal p and that into a t of the degrees of freedom at hand.
Pairs are logarithms of decode speed, now over was; starts of a server are a noise of their own (MEASURING.md 4.4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance

from dflash_doctor.formats.load import Decision
from dflash_doctor.model import Sample
from dflash_doctor.stats import BOOT_NOISE, MIN_BOOTS, OK, REGRESSED

LOOK = 8  # prompts from one look to the next
# C of O'Brien and Fleming's bounds for so many equally spaced looks, one-sided 0.01: the 99th percentile of
# max_k (z_k sqrt(k / K)) over four million random walks
BOUNDS = {1: 2.326, 2: 2.332, 3: 2.353, 4: 2.373}
BOUNDS_PASSES = {2: 2.333, 3: 2.350}  # four looks at the first pass, then one at the end of each
POWER = 1.2816  # 90 % of a normal distribution lie below: what is detectable is found nine times in ten


@dataclass(frozen=True)
class Against:
    """The tuned side: decode speed of each prompt, and how far two starts of one server lie apart (sd of the log)."""

    speeds: Mapping[str, float]
    boots: int = 1
    boot_noise: float = BOOT_NOISE
    boot_df: float = math.inf  # of that sd: infinite when it was assumed, or is nothing within one start


def against(samples: Iterable[Sample]) -> Against | None:
    """The tuned side of a stored run, from its battery at one request at a time; None when it has no such prompts."""
    mine = [
        s for s in samples
        if (s.metric, s.workload, s.concurrency) == ("output_tok_s", "battery", 1.0) and s.prompt and s.value > 0
    ]  # fmt: skip
    if not mine:
        return None
    by_prompt: dict[str, list[float]] = {}
    by_boot: dict[str | None, list[float]] = {}
    for s in mine:
        by_prompt.setdefault(s.prompt or "", []).append(math.log(s.value))
        by_boot.setdefault(s.boot, []).append(math.log(s.value))
    speeds = {prompt: math.exp(fmean(logs)) for prompt, logs in by_prompt.items()}
    if len(by_boot) < MIN_BOOTS:
        return Against(speeds, len(by_boot))
    return Against(speeds, len(by_boot), stdev(map(fmean, by_boot.values())), len(by_boot) - 1)


def get_ready() -> None:
    """Import what looks need: it takes seconds, and a load is timed."""
    import scipy.stats  # noqa: F401


def due(prompts: int, planned: int) -> bool:
    """Whether it is time for a look."""
    return prompts > 1 and (prompts % LOOK == 0 or prompts == planned)


def decide(pairs: Sequence[float], planned: int, was: Against, passes: int = 1, done: int = 1) -> Decision:
    """What so many prompts say, of `planned` ones in `passes` passes of which the `done`-th is at its end.

    `pairs`: log(decode speed now / was), one for each prompt, its passes averaged; at least two.
    """
    from scipy.stats import norm
    from scipy.stats import t as student

    n = len(pairs)
    looks = max(1, min(-(-planned // LOOK), max(BOUNDS)))
    share = max(n / planned, 1e-9) * (done / passes)  # of all that may be seen
    bound = BOUNDS_PASSES.get(passes, BOUNDS[looks])
    nominal = float(norm.sf(bound / math.sqrt(min(share, 1.0))))
    sampling = variance(pairs) / n
    boots = was.boot_noise**2 * (1 + 1 / was.boots)
    total = sampling + boots
    rest = sampling**2 / (n - 1) + boots**2 / was.boot_df
    df = min(total**2 / rest, 1e9) if rest > 0 else 1e9
    se = math.sqrt(total)
    half = float(student.isf(nominal, df)) * se
    centre = fmean(pairs)
    low, high = math.exp(centre - half), math.exp(centre + half)
    return Decision(
        word="regressed" if high < 1 - REGRESSED else "ok" if low > 1 - OK else "undecided",
        factor=math.exp(centre), low=low, high=high, prompts=n,
        detectable=1 - (1 - REGRESSED) * math.exp(-half - POWER * se),
    )  # fmt: skip
