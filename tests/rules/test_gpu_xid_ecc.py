"""gpu.xid_ecc: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dataclasses import replace

from dflash_doctor.model import Gap
from dflash_doctor.rules.card_errors import LIFETIME
from tests.rules.build import card, found, signal, snapshot


def test_a_hardware_xid_is_named():
    said = signal(
        "kernel.xid",
        "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
        "ERROR",
        xid="79",
        meaning="GPU has fallen off the bus",
    )
    finding = found("gpu.xid_ecc", snapshot(signals=[said]))
    assert finding.summary == "the hardware reports errors: Xid 79 (GPU has fallen off the bus)"
    assert finding.severity == "critical"


def test_iommu_faults_end_in_the_kernel_option():
    said = signal("kernel.iommu", "AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0012]", "ERROR")
    assert "iommu=pt" in found("gpu.xid_ecc", snapshot(signals=[said])).next_steps[0]


def test_pending_row_remapping_is_named():
    assert found("gpu.xid_ecc", snapshot(readings=[card(remapped__rows_pending="Yes")]))


def test_an_applications_own_xid_is_not_the_hardwares():
    said = signal("kernel.xid", "NVRM: Xid: 31, MMU fault", "WARNING", xid="31")
    assert found("gpu.xid_ecc", snapshot(signals=[said])) is None


def test_old_lines_that_the_tuned_server_had_are_history():
    said = signal("kernel.xid", "NVRM: Xid: 63", "ERROR", xid="63")
    same = snapshot(signals=[said])
    assert found("gpu.xid_ecc", same, same) is None


def links(*rows, **more):
    """NVLinks of one card: active or not, and whatever they counted."""
    return [{"link": n, "active": active, **more} for n, active in enumerate(rows)]


def with_links(index, made, load=True, **values):
    reading = card(index, load, **values)
    return replace(reading, values={**reading.values, "nvml.nvlink": made})


def test_a_card_with_fewer_links_than_its_equals_is_named():
    cards = [with_links(0, links(True, True, True)), with_links(1, links(True, False, True))]
    finding = found("gpu.xid_ecc", snapshot(readings=cards))
    assert "NVLink errors or missing links" in finding.summary
    assert finding.evidence[0].text == "GPU 1: 2 NVLinks active, 3 on its equals"


def test_links_that_no_equal_has_either_are_how_it_is_built():
    cards = [with_links(i, links(True, False)) for i in range(2)]
    assert found("gpu.xid_ecc", snapshot(readings=cards)) is None
    # asleep before the load, awake under it
    awake = [with_links(0, links(True)), with_links(1, links(False), load=False), with_links(1, links(True))]
    assert found("gpu.xid_ecc", snapshot(readings=awake)) is None


def test_link_errors_of_long_ago_are_history_and_growing_ones_are_not():
    old = [with_links(0, links(True, replay=7), load=False), with_links(0, links(True, replay=7))]
    assert found("gpu.xid_ecc", snapshot(readings=old)) is None
    growing = [old[0], with_links(0, links(True, replay=9))]
    assert found("gpu.xid_ecc", snapshot(readings=growing)).evidence[0].text == (
        "GPU 0: NVLink 0 replay +2 while we looked"
    )


def test_a_lost_card_and_a_wanted_reset_are_named():
    lost = card(2, clocks_sm=Gap("clocks.sm", "GPU is lost"))
    assert "a card does not answer any more" in found("gpu.xid_ecc", snapshot(readings=[card(0), lost])).summary
    asks = replace(card(0), values={**card(0).values, "gpu_recovery_action": "Drain and Reset"})
    assert "asks for a reset" in found("gpu.xid_ecc", snapshot(readings=[asks])).summary
    well = replace(card(0), values={**card(0).values, "gpu_recovery_action": "None"})
    assert found("gpu.xid_ecc", snapshot(readings=[well])) is None


def test_what_a_card_counted_in_its_whole_life_is_news_only_beside_an_earlier_count():
    def host(count):
        reading = card(0, uuid="GPU-1")
        return snapshot(readings=[replace(reading, values={**reading.values, LIFETIME: count})])

    assert found("gpu.xid_ecc", host(3)) is None
    assert found("gpu.xid_ecc", host(3), host(3)) is None
    assert found("gpu.xid_ecc", host(4), host(3)).evidence[0].text.endswith("3 -> 4")
