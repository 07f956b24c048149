"""gpu.xid_ecc: when it is named, and the nearest case where it is not."""

from __future__ import annotations

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
