"""Change points: where the level of the nights moved, found where another well-known tool finds them."""

from __future__ import annotations

import json
import os
import random
import subprocess

import pytest
from nightly_series import series

from dflash_doctor.history import changes

# what apache-otava 0.8.0 finds in the same series (window 50, p 0.001, magnitude 3 %). It takes the spread without
# Bessel's correction, so of stretches of two or three nights it is surer than we are: series 19, a level of two nights
OTAVA = {
    0: [15], 1: [], 2: [], 3: [9, 22], 4: [8], 5: [99], 6: [], 7: [], 8: [17], 9: [22, 52], 10: [], 11: [64],
    12: [72], 13: [16], 14: [13, 16], 15: [], 16: [32, 35], 17: [108], 18: [], 19: [6, 8], 20: [26], 21: [18],
    22: [], 23: [], 24: [26, 28], 25: [], 26: [], 27: [13, 30, 40], 28: [7, 14], 29: [], 30: [83], 31: [6], 32: [],
    33: [], 34: [79], 35: [101], 36: [], 37: [], 38: [18], 39: [17],
}  # fmt: skip
OURS_ALONE = {19: [8]}


def test_otava_finds_the_same_points():
    assert {s: [c.at for c in changes(series(s))] for s in OTAVA} == OTAVA | OURS_ALONE


ASK = """
import json, sys
from nightly_series import series
from otava.analysis import compute_change_points as points
print(json.dumps({s: [int(c.index) for c in points(series(s), 50, 0.001, 0.03)[0]] for s in json.load(sys.stdin)}))
"""


@pytest.mark.skipif("DFLASH_DOCTOR_OTAVA" not in os.environ, reason="it names the Python that has apache-otava")
def test_otava_itself_still_says_so():
    done = subprocess.run(
        [os.environ["DFLASH_DOCTOR_OTAVA"], "-c", ASK], input=json.dumps(list(OTAVA)), capture_output=True, text=True,
        check=True, cwd=os.path.dirname(__file__),
    )  # fmt: skip
    assert {int(k): v for k, v in json.loads(done.stdout).items()} == OTAVA


def test_a_quiet_host_has_no_change_in_a_thousand_nights():
    rng = random.Random(5)
    found = [changes([rng.gauss(100, 2) for _ in range(100)]) for _ in range(10)]
    assert sum(map(len, found)) <= 1


def test_a_step_has_its_place_its_size_and_its_levels():
    (change,) = changes([100.0, 101.0, 99.0, 100.5, 99.5] * 3 + [90.0, 90.9, 89.1, 90.4, 89.6] * 3)
    assert (change.at, round(change.before), round(change.after)) == (15, 100, 90)
    assert change.size == pytest.approx(1 / 9, rel=0.01)
    assert change.p < 1e-9


def test_steps_below_the_margin_are_none():
    assert changes([100.0, 100.1, 99.9, 100.05, 99.95] * 4 + [98.0, 98.1, 97.9, 98.05, 97.95] * 4) == ()


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0], [5.0] * 30, [0.0] * 12])
def test_what_is_too_short_or_never_moves_has_no_change(values):
    assert changes(values) == ()


def test_a_level_that_repeats_exactly_and_then_moves_is_a_change():
    assert [c.at for c in changes([10.0] * 8 + [5.0] * 8)] == [8]


def test_zeros_that_end_are_a_change():
    assert [c.at for c in changes([0.0] * 8 + [5.0, 5.1, 4.9] * 3)] == [8]
