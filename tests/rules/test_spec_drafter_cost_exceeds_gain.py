"""spec.drafter_cost_exceeds_gain: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot, speed

PLAIN = snapshot(settings={"spec.method": "none"}, samples=[speed(26.0)])


def drafting(tok_s, length):
    return snapshot(
        settings={"spec.method": "draft_model"}, samples=[speed(tok_s), speed(length, metric="accept_length")]
    )


def test_a_drafter_that_costs_more_than_it_saves_is_named():
    finding = found("spec.drafter_cost_exceeds_gain", drafting(19.0, 2.2), PLAIN)
    assert finding.summary == (
        "with draft_model the server gives 0.73x of what it gave without although a step keeps 2.2 tokens: "
        "the step takes 3x as long as a plain one"
    )


def test_a_drafter_that_pays_is_no_finding():
    assert found("spec.drafter_cost_exceeds_gain", drafting(48.0, 2.2), PLAIN) is None


def test_a_drafter_that_is_never_right_is_the_fault_itself():
    assert found("spec.drafter_cost_exceeds_gain", drafting(19.0, 1.0), PLAIN) is None
