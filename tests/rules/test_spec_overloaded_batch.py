"""spec.overloaded_batch: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot, speed, steps


def serving(*rows):
    return snapshot(
        "sglang", settings={"spec.method": "mtp"}, intervals=[steps(n, v, accept_length=a) for n, v, a in rows]
    )


def test_a_step_that_grows_with_the_batch_at_equal_acceptance_is_named():
    finding = found("spec.overloaded_batch", serving((16, 352.0, 1.86), (64, 900.0, 1.85)))
    assert finding.summary == "from 16 to 64 running requests a step takes 1.6x as long at the same acceptance"


def test_a_plain_baseline_that_is_faster_at_many_requests_is_named():
    now = snapshot(
        settings={"spec.method": "mtp"}, samples=[speed(2.0, metric="accept_length"), speed(60.0, 1), speed(800.0, 32)]
    )
    was = snapshot(settings={"spec.method": "none"}, samples=[speed(45.0, 1), speed(1300.0, 32)])
    assert "at 32 requests speculation makes the server 38% slower" in found("spec.overloaded_batch", now, was).summary


def test_a_batch_that_scales_is_not_overloaded():
    assert found("spec.overloaded_batch", serving((4, 100.0, 1.9), (32, 760.0, 1.9))) is None


def test_acceptance_that_falls_with_the_load_is_another_fault():
    assert found("spec.overloaded_batch", serving((16, 352.0, 2.9), (64, 900.0, 1.5))) is None
