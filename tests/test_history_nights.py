"""A small loss takes two nights; a large one takes one."""

from __future__ import annotations

from historical import run

from dflash_doctor.history import Run, settled, trends
from dflash_doctor.model import Comparison, Diagnosis, Slowdown, Snapshot


def night(factor, verdict="regressed"):
    slow = Slowdown("output_tok_s", 100.0, 100.0 * factor, factor)
    return Diagnosis("gpu7", verdict, Comparison(Snapshot("gpu7")), slowdown=slow, baseline="tuned")


def test_a_small_loss_seen_once_is_unconfirmed_and_says_what_confirms_it():
    found = settled(night(0.93), [run(), run()])
    assert found.verdict == "unconfirmed"
    assert "when the next check sees it too" in found.notes[-1]


def test_seen_again_it_is_a_regression():
    assert settled(night(0.93), [run(), run(verdict="unconfirmed", factor=0.93)]).verdict == "regressed"


def test_a_loss_of_more_than_a_tenth_takes_one_night():
    assert settled(night(0.85), []).verdict == "regressed"


def test_a_good_night_between_two_bad_ones_begins_anew():
    assert settled(night(0.93), [run(verdict="unconfirmed"), run()]).verdict == "unconfirmed"


def test_nights_that_measured_nothing_say_nothing():
    gone = Run("gpu7", 1.0, "unreachable", says="no route to host")
    seen = [run(verdict="unconfirmed"), gone, run(verdict="inconclusive"), run(verdict="suspect")]
    assert settled(night(0.93), seen).verdict == "regressed"


def test_a_night_against_another_baseline_does_not_count():
    assert settled(night(0.93), [run(verdict="unconfirmed", baseline="older")]).verdict == "unconfirmed"


def test_other_verdicts_stay_what_they_are():
    assert settled(night(1.0, "healthy"), [run(verdict="regressed")]).verdict == "healthy"


def test_a_turn_names_what_changed_with_it():
    before = [run(number=i, facts={"engine.version": "0.20.1", "gpu.count": "2"}) for i in range(8)]
    after = [run(number=i, facts={"engine.version": "0.21.0", "gpu.count": "2"}) for i in range(8, 16)]
    rows = [(i, (100.0 if i < 8 else 80.0) + i % 3) for i in range(16)]
    times = [(i, (10.0 if i < 8 else 12.5) + 0.1 * (i % 3)) for i in range(16)]
    speed, tpot = trends([*before, *after], {"tpot_ms|chat|1": times, "output_tok_s|chat|1": rows})
    assert (speed.metric, tpot.metric) == ("output_tok_s", "tpot_ms")
    (turn,) = speed.turns
    assert turn.changed == (("engine.version", "0.20.1", "0.21.0"),)
    assert turn.run.number == 8
    assert turn.factor < 1 and tpot.turns[0].factor < 1, "slower is below one, whichever way the metric points"
