"""gpu.hidden_power_state: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import card, found, snapshot, speed, steps


def box(*speeds, clock=2411, name="NVIDIA GB10"):
    rows = [steps(1, v, accept_length=2.5) for v in speeds]
    return snapshot(intervals=rows, readings=[card(name=name, clocks_sm=clock, clocks_max_sm=3003)])


def test_two_levels_of_step_time_with_normal_clocks_are_named():
    finding = found("gpu.hidden_power_state", box(39.7, 39.5, 26.6, 26.8, 39.6, 26.7))
    assert finding.summary == "step time jumps between 63 and 94 ms at one batch and acceptance, with normal clocks"


def test_a_clock_that_fell_is_not_hidden():
    assert found("gpu.hidden_power_state", box(39.7, 39.5, 26.6, 26.8, clock=800)) is None


def test_a_spread_without_two_levels_is_noise():
    assert found("gpu.hidden_power_state", box(39.7, 38.0, 36.5, 35.0, 33.8)) is None


def test_another_acceptance_explains_two_levels():
    rows = [
        steps(1, 40.0, accept_length=2.5),
        steps(1, 40.0, accept_length=2.5),
        steps(1, 40.0, accept_length=3.6),
        steps(1, 40.0, accept_length=3.6),
    ]
    assert found("gpu.hidden_power_state", snapshot(intervals=rows, readings=[card()])) is None


def test_equal_step_times_are_one_level():
    assert found("gpu.hidden_power_state", box(39.7, 39.7, 39.7, 39.7, 39.7)) is None


def spark(watts, tok_s, clock=2405):
    reading = card(name="NVIDIA GB10", clocks_sm=clock, clocks_max_sm=2418, power_draw=watts, utilization_gpu=96)
    return snapshot(readings=[reading], samples=[speed(tok_s)])


def test_the_same_clocks_on_half_the_power_and_half_the_speed_are_named():
    finding = found("gpu.hidden_power_state", spark(19.0, 31.3), spark(41.0, 78.8))
    assert finding.summary == "the card is as busy at the same clocks, but draws 19 W where it drew 41 W"


def test_less_power_at_the_same_speed_is_a_saving():
    assert found("gpu.hidden_power_state", spark(19.0, 78.0), spark(41.0, 78.8)) is None
