"""spec.quantized_target_or_draft: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot, speed, steps


def served(path, length, curve):
    return snapshot(
        settings={"spec.method": "eagle3", "spec.draft_model": "/models/head", "model.path": path},
        samples=[speed(length, metric="accept_length")],
        intervals=[steps(1, 20.0, accept_length=length, per_position=curve)],
    )


PLAIN = served("/models/big", 2.6, (0.8, 0.5, 0.3))


def test_a_rotated_target_under_the_same_head_is_named():
    finding = found("spec.quantized_target_or_draft", served("/models/big-w8a8-QuaRot", 1.0, (0.0, 0.0, 0.0)), PLAIN)
    assert finding.summary.startswith("model.path: /models/big -> /models/big-w8a8-QuaRot")
    assert "spec.acceptance_collapse" in finding.effects
    assert finding.confidence == 0.9


def test_a_quantised_target_that_keeps_its_acceptance_is_fine():
    assert found("spec.quantized_target_or_draft", served("/models/big-fp8", 2.6, (0.8, 0.5, 0.3)), PLAIN) is None


def test_a_collapse_without_a_change_of_quantisation_is_another_fault():
    assert found("spec.quantized_target_or_draft", served("/models/big", 1.0, (0.0, 0.0, 0.0)), PLAIN) is None


def test_a_head_that_is_a_part_of_the_checkpoint_changes_with_its_next_quantised_build():
    def build(path, length):
        return snapshot(
            settings={"spec.method": "mtp", "spec.draft_model": path, "model.path": path},
            samples=[speed(length, metric="accept_length")],
        )

    now, was = build("/models/big-int4-AutoRound-all", 1.3), build("/models/big-int4-AutoRound", 2.9)
    assert found("spec.quantized_target_or_draft", now, was).summary.startswith("model.path: ")
    assert found("spec.drafter_undertrained", now, was) is None
    plain = build("/models/big-v2", 1.3), build("/models/big", 2.9)
    assert found("spec.quantized_target_or_draft", *plain) is None
