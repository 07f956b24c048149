"""A finding's confidence is how often such findings were right, not how sure its rule feels."""

from __future__ import annotations

from itertools import pairwise

import pytest

from dflash_doctor.rules.calibration import SUREST, calibrated


def test_surer_rules_are_surer_and_none_is_certain():
    steps = [calibrated(x / 100) for x in range(101)]
    assert all(a <= b for a, b in pairwise(steps))
    assert steps[-1] <= SUREST


@pytest.mark.parametrize("doubted", [0.05, 0.2, 0.44])
def test_what_something_speaks_against_keeps_its_doubt(doubted):
    assert calibrated(doubted) == pytest.approx(doubted)


def test_cautious_rules_are_taken_for_what_they_were_worth():
    # of 14 findings between 0.7 and 0.8 on incidents unseen 79 in a hundred were right, of 20 above that 95
    assert 0.79 <= calibrated(0.7) <= 0.92
    assert 0.9 <= calibrated(0.85) <= 0.97
