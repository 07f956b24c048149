"""moe.backend_changed: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dflash_doctor.model import Setting
from tests.rules.build import found, snapshot


def test_a_changed_default_is_named():
    now = snapshot(
        settings={"moe.backend": Setting("moe.backend", "flashinfer_cutlass", "effective", "--moe-backend")},
        version="0.20.0",
    )
    was = snapshot(settings={"moe.backend": "triton"}, version="0.19.1")
    finding = found("moe.backend_changed", now, was)
    assert finding.summary == ("moe.backend: triton -> flashinfer_cutlass (nobody asked for it: a changed default)")
    assert finding.next_steps == ("put --moe-backend back to triton",)


def test_another_engine_names_its_backends_in_its_own_way():
    now, was = (
        snapshot("sglang", settings={"moe.backend": "deep_gemm"}),
        snapshot("vllm", settings={"moe.backend": "triton"}),
    )
    assert found("moe.backend_changed", now, was) is None


def test_the_same_backend_is_no_change():
    same = snapshot(settings={"moe.backend": "triton"})
    assert found("moe.backend_changed", same, same) is None
