"""spec.sampling_mismatch: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot, speed


def served(length, workload, **settings):
    return snapshot(
        "sglang",
        settings={"spec.method": "eagle"} | settings,
        samples=[speed(length, metric="accept_length", workload=workload)],
    )


def test_a_higher_temperature_with_fewer_accepted_drafts_is_named():
    finding = found(
        "spec.sampling_mismatch", served(1.55, "mt-bench, temperature 1.0"), served(2.19, "mt-bench, temperature 0")
    )
    assert finding.summary == "temperature 0 -> 1: drafts are accepted less (2.19 -> 1.55 tokens per step)"


def test_a_lost_draft_sampling_method_is_named():
    now = served(2.66, "chat", **{"spec.draft_sampling": "greedy"})
    assert found("spec.sampling_mismatch", now, served(3.19, "chat", **{"spec.draft_sampling": "probabilistic"}))


def test_sampling_that_changed_without_a_loss_is_no_finding():
    now, was = served(2.2, "mt-bench, temperature 1.0"), served(2.19, "mt-bench, temperature 0")
    assert found("spec.sampling_mismatch", now, was) is None
