"""attention.backend_fallback: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dflash_doctor.model import Setting
from tests.rules.build import found, signal, snapshot


def test_a_backend_that_was_asked_for_and_does_not_run_is_named():
    asked = Setting("attention.backend", "flashinfer", "asked", "--attention-backend")
    now = snapshot(settings={"attention.backend": "triton"}, asked={"attention.backend": asked})
    finding = found("attention.backend_fallback", now, snapshot(settings={"attention.backend": "flashinfer"}))
    assert finding.summary == "attention backend flashinfer was asked for, triton runs"


def test_the_engines_own_word_is_enough():
    said = signal(
        "attn.fallback", "FlashInfer is not available, falling back to triton", topics=("attention_backend_fallback",)
    )
    assert found("attention.backend_fallback", snapshot(settings={"attention.backend": "triton"}, signals=[said]))


def test_what_was_asked_for_and_runs_is_no_fallback():
    asked = Setting("attention.backend", "flash_attn", "asked", "--attention-backend")
    now = snapshot(settings={"attention.backend": "flash_attn"}, asked={"attention.backend": asked})
    assert found("attention.backend_fallback", now) is None


def test_a_warning_that_the_tuned_server_printed_too_does_not_count():
    said = signal("attn.fallback", "falling back", topics=("attention_backend_fallback",))
    same = snapshot(settings={"attention.backend": "triton"}, signals=[said])
    assert found("attention.backend_fallback", same, same) is None
