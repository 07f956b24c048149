"""spec.not_active: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, grown, signal, snapshot, speed

TUNED = snapshot(settings={"spec.method": "mtp", "spec.depth": 3}, samples=[speed(3.2, metric="accept_length")])


def test_a_lost_method_is_named_with_what_it_gave():
    finding = found("spec.not_active", snapshot(settings={"spec.method": "none"}), TUNED)
    assert finding.summary == "speculation is off; the tuned server ran mtp, which gave 3.2 tokens per step"


def test_a_method_that_the_engine_silently_dropped_is_named():
    said = signal("spec.overlap", "speculative decoding is disabled for this model", topics=("spec_off",))
    now = snapshot(settings={"spec.method": "mtp"}, signals=[said])
    assert found("spec.not_active", now).summary.startswith("speculation was asked for")


def test_a_server_that_never_drafted_lost_nothing():
    plain = snapshot(settings={"spec.method": "none"})
    assert found("spec.not_active", plain, plain) is None


def test_a_server_that_drafts_is_active():
    assert found("spec.not_active", TUNED, TUNED) is None


def test_a_draft_counter_that_stands_still_while_tokens_are_written_is_named():
    counters = [grown("vllm:spec_decode_num_drafts_total", 0.0), grown("vllm:generation_tokens_total", 24_810.0)]
    now = snapshot(settings={"spec.method": "mtp"}, counters=counters)
    finding = found("spec.not_active", now, TUNED)
    assert finding.summary == "speculation is set up, but not one draft was made while tokens were written"
    few = snapshot(settings={"spec.method": "mtp"}, counters=[counters[0], grown("vllm:generation_tokens_total", 12.0)])
    assert found("spec.not_active", few, TUNED) is None
