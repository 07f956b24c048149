"""spec.acceptance_collapse: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot, speed, steps


def drafts(length, curve=(), **settings):
    rows = [steps(1, 50.0, accept_length=length, per_position=curve)] if curve else []
    return snapshot(
        settings={"spec.method": "dflash", "spec.depth": 7} | settings,
        samples=[speed(length, metric="accept_length")],
        intervals=rows,
    )


def test_far_fewer_tokens_per_step_than_tuned_are_named():
    finding = found("spec.acceptance_collapse", drafts(1.17, (0.12, 0.03)), drafts(3.2))
    assert finding.summary == "drafts keep 1.17 tokens per step, first position 12%, 7 drafted, 3.20 when tuned"
    assert "turn speculation off once and compare" in finding.next_steps[0]


def test_without_a_baseline_a_dead_first_position_tells():
    assert found("spec.acceptance_collapse", drafts(1.17, (0.12, 0.03)))
    assert found("spec.acceptance_collapse", drafts(2.4, (0.7, 0.4))) is None


def test_the_spread_of_texts_is_no_collapse():
    assert found("spec.acceptance_collapse", drafts(3.0), drafts(3.2)) is None


def test_a_measured_load_says_more_than_the_traffic_of_the_log():
    def seen(logged):
        measured = [speed(4.5, metric="accept_length", workload="battery")]
        return snapshot(
            settings={"spec.method": "dflash"},
            samples=[*measured, speed(logged, None, metric="accept_length", workload=None)],
        )

    assert found("spec.acceptance_collapse", seen(4.0), seen(5.6)) is None
