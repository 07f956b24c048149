"""spec.draft_length_mistuned: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dflash_doctor.model import Setting
from tests.rules.build import found, snapshot, speed, steps


def drafts(depth, curve, length, tok_s):
    depth_setting = Setting("spec.depth", depth, "asked", "num_speculative_tokens")
    return snapshot(
        settings={"spec.method": "eagle", "spec.depth": depth_setting},
        samples=[speed(length, metric="accept_length"), speed(tok_s)],
        intervals=[steps(1, tok_s, accept_length=length, per_position=curve)],
    )


TAIL = (0.64, 0.38, 0.21, 0.11, 0.055, 0.027, 0.013, 0.006, 0.003, 0.001)
LONG = (0.63, 0.27, 0.14, 0.08, 0.03, 0.02, 0.01) + (0.0,) * 25


def test_a_serial_draft_far_longer_than_what_is_kept_is_named():
    finding = found("spec.draft_length_mistuned", drafts(32, LONG, 2.18, 48.3), drafts(1, (0.63,), 1.63, 108.4))
    words = "spec.depth: 1 -> 32; 4 would keep 2.12 of the 2.18 tokens per step and save the other passes"
    assert finding.summary == words
    assert finding.next_steps == ("put num_speculative_tokens back to 1",)
    assert finding.confidence > 0.7


def test_a_block_whose_last_position_is_still_worth_it_is_well_tuned():
    assert found("spec.draft_length_mistuned", drafts(3, (0.8, 0.65, 0.5), 2.95, 90.0)) is None


def test_a_tail_that_is_hardly_ever_kept_is_told_by_what_its_passes_cost():
    finding = found("spec.draft_length_mistuned", drafts(10, TAIL, 2.45, 70.0))
    assert finding.next_steps == ("draft 4 tokens instead of 10",)
    assert finding.confidence > 0.5
    assert found("spec.draft_length_mistuned", drafts(4, TAIL[:4], 2.34, 85.0)) is None


def test_a_broken_drafter_has_no_good_length():
    assert (
        found(
            "spec.draft_length_mistuned",
            drafts(5, (0.02, 0.0, 0.0, 0.0, 0.0), 1.02, 20.0),
            drafts(3, (0.8, 0.6, 0.5), 2.9, 60.0),
        )
        is None
    )
