"""From a rule's own confidence to the probability that it is right: a logistic curve through incidents nobody tuned to.

    probability = 1 / (1 + exp(-(intercept + slope x logit(confidence))))          (Platt 1999)

The two numbers are in data/calibration.yaml, with what they rest on; tests/calibrate.py fits them to a folder of
labelled incidents. Rules are cautious: what they say at 0.7 was right nine times in ten. A finding that something
speaks against, under a half, keeps its doubt: too few of them were seen to say otherwise.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import yaml

from dflash_doctor import paths

SUREST = 0.98  # no log proves more
DOUBTED, TRUSTED = 0.45, 0.5  # below the one a rule's own number stands, above the other the curve's


@cache
def _curve() -> tuple[float, float]:
    said: Any = yaml.safe_load(paths.data("calibration.yaml").read_text(encoding="utf-8"))
    return float(said["intercept"]), float(said["slope"])


def calibrated(confidence: float) -> float:
    """The probability that a finding to act on is right, 0..1, from what its rule says."""
    p = min(max(confidence, 1 - SUREST), SUREST)
    intercept, slope = _curve()
    curve = min(1 / (1 + math.exp(-(intercept + slope * math.log(p / (1 - p))))), SUREST)
    trust = min(max((p - DOUBTED) / (TRUSTED - DOUBTED), 0.0), 1.0)
    return round((1 - trust) * p + trust * curve, 3)
