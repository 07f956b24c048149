"""spec.drafter_undertrained: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot, speed, steps


def drafts(length, curve, drafter="/models/new-head", method="dflash"):
    return snapshot(
        settings={"spec.method": method, "spec.depth": len(curve), "spec.draft_model": drafter},
        samples=[speed(length, metric="accept_length")],
        intervals=[steps(1, 17.7, accept_length=length, per_position=curve)],
    )


POOR = drafts(1.17, (0.12, 0.033, 0.01, 0.007))


def test_low_and_smooth_from_the_first_position_on_is_a_poor_drafter():
    finding = found("spec.drafter_undertrained", POOR, drafts(3.2, (0.9, 0.75, 0.55), "/models/old-head", "mtp"))
    assert finding.summary.endswith("smoothly: poor, not miswired")
    assert "try speculation by mtp as tuned" in finding.next_steps


def test_the_same_checkpoint_has_not_become_undertrained():
    assert found("spec.drafter_undertrained", POOR, drafts(3.2, (0.8, 0.6, 0.5), "/models/new-head")) is None


def test_nearly_zero_is_a_wiring_fault():
    assert found("spec.drafter_undertrained", drafts(1.0, (0.01, 0.0))) is None


def test_a_cliff_after_a_good_first_position_is_a_lost_chain():
    assert found("spec.drafter_undertrained", drafts(1.55, (0.5, 0.02, 0.0))) is None
