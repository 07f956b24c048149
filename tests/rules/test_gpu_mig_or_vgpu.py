"""gpu.mig_or_vgpu: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import card, found, snapshot


def test_a_slice_is_named_by_its_profile():
    finding = found("gpu.mig_or_vgpu", snapshot(readings=[card(name="NVIDIA H100 80GB HBM3 MIG 1g.20gb")]))
    assert finding.summary.endswith("NVIDIA H100 80GB HBM3 MIG 1g.20gb")


def test_mig_mode_without_a_name_is_seen_too():
    assert found("gpu.mig_or_vgpu", snapshot(readings=[card(mig_mode_current="Enabled")]))


def test_a_slice_that_was_tuned_is_the_tuned_state():
    same = snapshot(readings=[card(name="NVIDIA A100 MIG 3g.40gb")])
    assert found("gpu.mig_or_vgpu", same, same) is None


def test_a_full_card_is_no_slice():
    assert found("gpu.mig_or_vgpu", snapshot(readings=[card(mig_mode_current="Disabled")])) is None
