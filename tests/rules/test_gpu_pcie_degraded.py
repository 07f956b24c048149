"""gpu.pcie_degraded: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import card, found, snapshot


def rig(*widths, load=True, gen=4, **settings):
    cards = [card(i, load, pcie_link_width_current=w, pcie_link_gen_current=gen) for i, w in enumerate(widths)]
    return snapshot(settings={"parallel.tp": len(widths)} | settings, readings=cards)


def test_a_narrow_slot_under_load_is_named():
    finding = found("gpu.pcie_degraded", rig(4, 8), rig(16, 16))
    assert finding.summary == (
        "PCIe under load: GPU 0 at generation 4 x4, GPU 1 at generation 4 x8; the tuned state has 4.0x as much"
    )


def test_the_idle_state_proves_nothing():
    assert found("gpu.pcie_degraded", rig(16, 16, load=False, gen=1), rig(16, 16)) is None


def test_a_narrow_slot_of_the_tuned_state_is_the_tuned_state():
    assert found("gpu.pcie_degraded", rig(8, 8), rig(8, 8)) is None


def test_one_card_hardly_notices():
    assert found("gpu.pcie_degraded", rig(4), rig(16)).severity == "info"
