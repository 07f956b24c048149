"""attention.backend_changed: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dflash_doctor.model import Setting
from tests.rules.build import found, snapshot


def test_another_backend_than_tuned_is_named_and_can_be_put_back():
    now = snapshot(
        settings={"attention.backend": Setting("attention.backend", "triton", "effective", "--attention-backend")}
    )
    finding = found("attention.backend_changed", now, snapshot(settings={"attention.backend": "flashinfer"}))
    assert finding.summary == "attention.backend: flashinfer -> triton"
    assert finding.next_steps == ("put --attention-backend back to flashinfer",)


def test_another_engines_backend_is_a_difference_but_rarely_the_reason():
    now = snapshot("vllm", settings={"attention.backend": "flash_attn"})
    was = snapshot("sglang", settings={"attention.backend": "flashinfer"})
    assert found("attention.backend_changed", now, was).confidence < 0.5


def test_the_same_backend_is_no_change():
    same = snapshot(settings={"attention.backend": "flash_attn"})
    assert found("attention.backend_changed", same, same) is None


def test_one_phase_that_got_a_backend_of_its_own_is_named():
    alike = {"attention.backend": "fa3"}
    now = snapshot("sglang", settings=alike | {"attention.decode_backend": "triton"})
    finding = found("attention.backend_changed", now, snapshot("sglang", settings=alike))
    assert finding.summary == "attention.decode_backend: fa3 -> triton"
    same = snapshot("sglang", settings=alike | {"attention.decode_backend": "fa3"})
    assert found("attention.backend_changed", same, snapshot("sglang", settings=alike)) is None
