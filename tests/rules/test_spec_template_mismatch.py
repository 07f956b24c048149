"""spec.template_mismatch: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, signal, snapshot, speed


def served(length, signals=(), **settings):
    return snapshot(
        settings={"spec.method": "eagle3"} | settings,
        samples=[speed(length, metric="accept_length")],
        signals=list(signals),
    )


def test_a_lost_template_with_fewer_accepted_drafts_is_named():
    now = served(1.4, **{"other.chat_template": "none"})
    was = served(2.6, **{"other.chat_template": "qwen.jinja"})
    assert found("spec.template_mismatch", now, was).summary.startswith("prompts reach the drafter in another form")


def test_the_engines_warning_about_a_missing_template_is_heard():
    said = signal("unknown", "No chat template was found for this model; using the raw prompt")
    assert said.evidence in found("spec.template_mismatch", served(1.4, [said]), served(2.6)).evidence


def test_a_changed_template_without_a_loss_is_no_finding():
    now, was = served(2.6, **{"other.chat_template": "a"}), served(2.6, **{"other.chat_template": "b"})
    assert found("spec.template_mismatch", now, was) is None
