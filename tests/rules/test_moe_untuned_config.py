"""moe.untuned_config: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, signal, snapshot

MISSING = signal(
    "moe.config_missing",
    "Using default MoE config. Performance might be sub-optimal! Config file not found at E=256.json",
)
FOUND = signal("moe.config_used", "Using configuration from E=256.json for MoE layer.", "INFO")


def test_a_file_that_the_tuned_server_had_is_named():
    finding = found("moe.untuned_config", snapshot(signals=[MISSING]), snapshot(signals=[FOUND]))
    assert finding.summary.endswith("the tuned server had a file for this shape")
    assert finding.confidence > 0.8


def test_the_warning_alone_is_only_information():
    assert found("moe.untuned_config", snapshot(signals=[MISSING])).severity == "info"


def test_a_tuned_server_that_warned_too_is_the_tuned_state():
    same = snapshot(signals=[MISSING])
    assert found("moe.untuned_config", same, same) is None
