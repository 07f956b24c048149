"""The kernel log: what is trouble of the cards, what is the application's own fault, and what is somebody else's."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.model import Unreadable
from dflash_doctor.parsers import dmesg
from tests.reading import facts_or_reason

IOMMU_STORY = """\
[    0.000000] Linux version 6.8.0-111-generic (buildd@lcy02-amd64-080) (x86_64-linux-gnu-gcc-13) #111-Ubuntu SMP
[    0.000000] Command line: BOOT_IMAGE=/boot/vmlinuz-6.8.0-111-generic ro quiet splash
[    0.412200] iommu: Default domain type: Translated
[    4.102911] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.142  Release Build  (dvs-builder@U22)
[    4.220194] nvidia 0000:09:00.0: enabling device (0000 -> 0003)
[41650.118820] nvidia 0000:09:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000f address=0xf1a00000 flags=0x0020]
[41650.118844] nvidia 0000:09:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000f address=0xf1a00080 flags=0x0020]
[41651.44118] NVRM: Xid (PCI:0000:09:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)
[41651.44193] NVRM: Xid (PCI:0000:41:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)
"""


def parse(text):
    return dmesg.parse(text, "dmesg.txt")


def only(text):
    (signal,) = parse(text).signals
    return signal


@pytest.mark.parametrize("row", dmesg.yaml.safe_load(dmesg.paths.data("kernel_signals.yaml").read_text())["signals"],
                         ids=lambda r: r["id"])  # fmt: skip
def test_every_pattern_reads_its_own_example(row):
    signal = only(f"[   12.000000] {row['example']}\n")
    assert signal.id == row["id"]
    assert signal.topics == tuple(row["topics"])
    assert signal.time == 12.0


def test_faults_of_device_memory_and_what_followed_are_told():
    facts = parse(IOMMU_STORY)
    iommu, first, second = (s for s in facts.signals if s.id != "kernel.driver")
    assert (iommu.id, iommu.count, iommu.last_line) == ("kernel.iommu", 2, 7)
    assert (first.fields["xid"], first.fields["pci"], first.level) == ("154", "0000:09:00", "ERROR")
    assert second.fields["pci"] == "0000:41:00", "the same Xid on two cards is two facts"


def test_the_kernel_tells_driver_and_command_line():
    assert parse(IOMMU_STORY).host == {
        "driver_version": "580.142",
        "driver_module": "open",
        "kernel_cmdline": "BOOT_IMAGE=/boot/vmlinuz-6.8.0-111-generic ro quiet splash",
        "iommu": "Translated",
    }


def test_an_illegal_access_is_the_programs_own_fault():
    signal = only(
        "[9.1] NVRM: Xid (PCI:0000:41:00): 31, pid=4411, name=python3, Ch 00000008, intr 00000000. MMU Fault\n"
    )
    assert signal.level == "WARNING"
    assert signal.fields["kind"] == "application"


def test_a_lost_card_is_hardware_and_says_what_it_means():
    signal = only(
        "[9.1] NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    )
    assert signal.level == "ERROR"
    assert "fallen off the bus" in signal.fields["meaning"]


def test_a_demand_taken_back_is_no_error():
    words = "GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"
    assert only(f"[9.1] NVRM: Xid (PCI:0000:09:00): 154, {words}\n").level == "INFO"


def test_a_demand_of_the_driver_is_told_in_its_words():
    xid = next(s for s in parse(IOMMU_STORY).signals if s.id == "kernel.xid")
    assert xid.fields["meaning"] == "the driver now asks for: Node Reboot Required"


CARD = "[    4.220194] nvidia 0000:41:00.0: enabling device (0000 -> 0003)\n"


def test_bus_errors_of_a_disk_are_not_the_cards_trouble():
    signal = only(
        CARD + "[8.0] nvme 0000:03:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)\n"
    )
    assert (signal.id, signal.level) == ("kernel.aer_other", "INFO")


def test_bus_errors_that_name_the_cards_place_are():
    signal = only(CARD + "[8.0] pcieport 0000:40:01.1: AER: Corrected error message received from 0000:41:00.0\n")
    assert (signal.id, signal.level) == ("kernel.aer", "WARNING")


def test_a_narrow_link_of_a_card_is_kept_and_of_a_network_adapter_is_not():
    words = (
        "31.504 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x4 link at 0000:00:01.1 (capable of 63.0 Gb/s)"
    )
    assert only(f"[4.0] nvidia 0000:41:00.0: {words}\n").fields["width"] == "4"
    assert parse(CARD + f"[4.0] mlx5_core 0000:05:00.0: {words}\n").signals == ()


def test_a_bios_that_could_not_place_a_window_says_nothing_about_speed():
    text = (
        "[    0.811204] pci 0000:02:00.0: VF BAR 2 [mem size 0x10000000 64bit pref]: can't assign; no space\n"
        "[    3.918220] nvidia: loading out-of-tree module taints kernel.\n"
    )
    assert parse(text).signals == ()


@pytest.mark.parametrize(
    "stamp",
    [
        "[41651.441180] ",
        "<6>[41651.441180] ",
        "[Thu May 21 22:12:00 2026] ",
        "2026-05-21T22:12:00+0200 gpu-a kernel: ",
        "May 21 22:12:00 gpu-a kernel: [41651.441180] ",
        "",
    ],
)
def test_every_stamp_people_have_is_read(stamp):
    signal = only(f"{stamp}NVRM: Xid (PCI:0000:41:00): 48, pid=1, DBE\n")
    assert signal.fields["xid"] == "48"
    assert (signal.time is None) == (stamp == "")


def test_a_quiet_kernel_log_is_an_answer():
    assert parse("[    0.000000] Linux version 6.8.0\n").signals == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("dmesg: read kernel buffer failed: Operation not permitted\n", "Operation not permitted"),
        ("", "empty"),
        ("\x00\xff\x01" * 500, "binary"),
    ],
)
def test_what_is_no_kernel_log_is_refused_in_its_own_words(text, why):
    with pytest.raises(Unreadable, match=why):
        parse(text)


@pytest.mark.parametrize(
    "line", ["NVRM: " + "a " * 400_000, "Xid (PCI:" * 90_000, "[" * 900_000, "AER: nvlink: " * 90_000]
)
def test_hostile_lines_are_read_in_linear_time(line):
    begun = time.monotonic()
    facts_or_reason(dmesg.parse, f"[1.0] {line}\n", "dmesg.txt")
    facts_or_reason(dmesg.parse, "\n".join([f"[1.0] {line[:2000]}"] * 400), "dmesg.txt")
    assert time.monotonic() - begun < 3


@given(st.text(), st.integers(0, 700))
def test_any_text_gives_facts_or_a_reason(text, cut):
    facts_or_reason(dmesg.parse, text, "dmesg.txt")
    facts_or_reason(dmesg.parse, IOMMU_STORY[:cut] + text, "dmesg.txt")


@pytest.mark.parametrize("text", ["\x0c", "\x1c\n", " \t\r\n", "\x85"])
def test_white_space_of_any_kind_is_no_kernel_log(text):
    with pytest.raises(Unreadable):
        dmesg.parse(text, "dmesg.txt")
