"""sched.async_or_overlap_disabled: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dflash_doctor.model import Setting
from tests.rules.build import found, signal, snapshot

OVERLAP = ("scheduler_overlap_off",)


def test_a_lost_switch_is_named_with_the_engines_word():
    said = signal("spec.overlap", "Overlap scheduler is disabled when spec v2 is off", topics=OVERLAP)
    switch = Setting("env.SGLANG_ENABLE_SPEC_V2", "1", "asked", "SGLANG_ENABLE_SPEC_V2")
    now = snapshot("sglang", settings={"env.HF_HUB_OFFLINE": "1"}, signals=[said])
    was = snapshot("sglang", settings={"env.HF_HUB_OFFLINE": "1", "env.SGLANG_ENABLE_SPEC_V2": switch})
    finding = found("sched.async_or_overlap_disabled", now, was)
    assert "env.SGLANG_ENABLE_SPEC_V2: 1 -> not set" in finding.summary
    assert finding.confidence > 0.8


def test_a_tuned_server_that_printed_it_too_lost_nothing():
    said = signal(
        "spec.overlap", "Overlap scheduler is disabled because of using eagle speculative decoding.", topics=OVERLAP
    )
    same = snapshot("sglang", signals=[said])
    assert found("sched.async_or_overlap_disabled", same, same) is None


def test_a_new_method_that_never_overlaps_is_its_price():
    said = signal("spec.overlap", "Overlap scheduler is disabled because of using eagle", topics=OVERLAP)
    now = snapshot("sglang", settings={"spec.method": "eagle"}, signals=[said])
    assert (
        found("sched.async_or_overlap_disabled", now, snapshot("sglang", settings={"spec.method": "none"})).confidence
        < 0.5
    )
