"""workload.changed: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot, speed


def test_other_lengths_are_no_regression():
    now = snapshot(samples=[speed(30.0, input_tokens=8000)])
    was = snapshot(samples=[speed(50.0, input_tokens=1000)])
    assert found("workload.changed", now, was).summary == "the load is not the baseline's (input_tokens: 1000 -> 8000)"


def test_another_workload_is_no_regression():
    now, was = snapshot(samples=[speed(30.0, workload="prose")]), snapshot(samples=[speed(50.0, workload="code")])
    assert (
        found("workload.changed", now, was).summary
        == "the load is not the baseline's (workload prose here, code in the baseline)"
    )


def test_a_server_that_is_slower_under_like_conditions_is_slower():
    now = snapshot(samples=[speed(17.7), speed(30.0, input_tokens=8000)])
    was = snapshot(samples=[speed(73.5), speed(50.0, input_tokens=1000)])
    assert found("workload.changed", now, was) is None
