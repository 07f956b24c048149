"""spec.sampling_mismatch: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, signal, snapshot, speed


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


def logged(min_p, length):
    params = f"SamplingParams(n=1, temperature=0.7, top_p=1.0, min_p={min_p}, seed=None)"
    text = f"Received request c-1: prompt: 'x', params: {params}, prompt_token_ids: None"
    return snapshot(
        settings={"spec.method": "ngram"},
        samples=[speed(length, metric="accept_length")],
        signals=[signal("api.request_body_logging", text, "INFO")],
    )


def test_requests_that_ask_for_other_sampling_are_named():
    finding = found("spec.sampling_mismatch", logged(0.05, 1.2), logged(0.0, 2.9))
    assert finding.summary.startswith("requests ask for min_p 0.0 -> 0.05: drafts are accepted less")
    assert found("spec.sampling_mismatch", logged(0.0, 1.2), logged("0", 2.9)) is None
