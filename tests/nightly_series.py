"""Made-up series of nights: levels, steps and noise of known size."""

from __future__ import annotations

import random


def series(seed: int) -> list[float]:
    """20 to 120 nights around 100, with up to three steps of 3 to 30 %, noise of 0.5 to 4 %."""
    rng = random.Random(seed)
    nights = rng.choice([20, 30, 45, 80, 120])
    steps = {
        rng.randrange(5, nights - 3): rng.choice([0.8, 0.9, 0.95, 1.1, 0.97, 1.3])
        for _ in range(rng.choice([0, 0, 1, 1, 2, 3]))
    }
    noise, level, out = rng.choice([0.005, 0.01, 0.02, 0.04]), 100.0, []
    for night in range(nights):
        level *= steps.get(night, 1)
        out.append(round(level * rng.gauss(1, noise), 3))
    return out
