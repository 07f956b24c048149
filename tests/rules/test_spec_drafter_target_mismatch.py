"""spec.drafter_target_mismatch: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, signal, snapshot, speed, steps


def drafts(length, curve, signals=(), drafter="/models/head"):
    return snapshot(
        settings={"spec.method": "eagle3", "spec.depth": 3, "spec.draft_model": drafter, "model.path": "/models/big"},
        samples=[speed(length, metric="accept_length")],
        intervals=[steps(1, 50.0, accept_length=length, per_position=curve)],
        signals=list(signals),
    )


def test_a_drafter_that_is_never_right_is_named():
    finding = found("spec.drafter_target_mismatch", drafts(1.0, (0.0, 0.0, 0.0)))
    assert "is not wired to this target" in finding.summary
    assert finding.next_steps[0] == "check that /models/head was made for /models/big"


def test_loader_warnings_about_the_drafter_make_it_surer():
    skipped = signal("unknown", "Parameter model.layers.0.mtp.q_proj not found in params_dict, skipping")
    plain = found("spec.drafter_target_mismatch", drafts(1.0, (0.0,)))
    warned = found("spec.drafter_target_mismatch", drafts(1.0, (0.0,), [skipped]))
    assert warned.confidence > plain.confidence
    assert skipped.evidence in warned.evidence


def test_eight_tokens_in_a_hundred_steps_are_no_guesses_either():
    said = signal("spec.block_mismatch", "Draft config num_target_layers=40 differs from runtime num_hidden_layers=48")
    finding = found("spec.drafter_target_mismatch", drafts(1.08, (), [said]))
    assert said.evidence in finding.evidence and finding.confidence > 0.8


def test_a_poor_drafter_still_gets_one_first_token_in_ten():
    assert found("spec.drafter_target_mismatch", drafts(1.17, (0.12, 0.03))) is None


def test_a_drafter_that_was_as_dead_when_tuned_is_no_change():
    same = drafts(1.0, (0.0, 0.0))
    assert found("spec.drafter_target_mismatch", same, same) is None


def test_a_drafter_under_another_target_is_named_by_the_target():
    from dataclasses import replace

    was = drafts(2.9, (0.8, 0.6, 0.5))
    now = drafts(1.9, (0.5, 0.3, 0.1))
    other = replace(now.settings["model.path"], value="/models/big-uncensored")
    now = replace(now, settings={**now.settings, "model.path": other})
    assert found("spec.drafter_target_mismatch", now, was).summary.startswith("the drafter was made for another target")
