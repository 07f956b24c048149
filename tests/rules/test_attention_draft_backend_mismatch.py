"""attention.draft_backend_mismatch: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot


def test_another_draft_backend_than_tuned_is_named():
    now = snapshot("sglang", settings={"spec.method": "dflash", "attention.draft_backend": "triton"})
    was = snapshot("sglang", settings={"spec.method": "dflash", "attention.draft_backend": "fa4"})
    assert found("attention.draft_backend_mismatch", now, was).summary == "attention.draft_backend: fa4 -> triton"


def test_without_a_drafter_there_is_no_draft_backend():
    now = snapshot(settings={"spec.method": "none", "attention.draft_backend": "triton"})
    was = snapshot(settings={"spec.method": "none", "attention.draft_backend": "fa3"})
    assert found("attention.draft_backend_mismatch", now, was) is None


def test_the_tuned_draft_backend_is_no_finding():
    same = snapshot(settings={"spec.method": "dflash", "attention.draft_backend": "fa4"})
    assert found("attention.draft_backend_mismatch", same, same) is None
