"""Masks, numbers and product names become words a person understands."""

import pytest
import yaml

from dflash_doctor import gpu_words, paths
from dflash_doctor.gpu_words import event_reasons, reasons_mask, spec_of, xid


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ("0x0000000000000000", ()),
        ("0x0000000000000004", ("sw_power_cap",)),
        ("0x0000000000000044", ("sw_power_cap", "hw_thermal_slowdown")),
        (0x101, ("gpu_idle", "display_clock_setting")),
        ("8", ("hw_slowdown",)),
        ("0x800", ("bit_0x800",)),
    ],
)
def test_a_mask_is_read_bit_by_bit(mask, words):
    assert event_reasons(mask) == words


@pytest.mark.parametrize("text", ["", "[N/A]", "Active", "0x", "-4", "ff" * 9999])
def test_what_is_no_mask_has_no_words(text):
    assert event_reasons(text) == ()


def test_words_make_the_mask_again():
    words = dict.fromkeys(gpu_words.REASONS.values(), True)
    assert set(event_reasons(reasons_mask(words))) == set(words)


def test_an_illegal_memory_access_is_the_applications_fault_and_a_lost_gpu_is_not():
    assert xid(31).kind == "application"
    assert xid(79).kind == "hardware"
    assert "fallen off the bus" in xid(79).means


def test_an_xid_nobody_knows_says_so():
    assert xid(9999).kind == "unknown"


def test_every_xid_has_a_kind_and_words():
    rows = yaml.safe_load(paths.data("xid.yaml").read_text(encoding="utf-8"))
    assert {r["kind"] for r in rows.values()} <= {"application", "hardware", "link", "driver", "info"}
    assert all(r["means"] for r in rows.values())


def test_products_are_found_by_the_drivers_name_old_or_new():
    assert spec_of("NVIDIA RTX A6000").bandwidth == 768e9
    assert spec_of("A100-SXM4-80GB") is spec_of("NVIDIA A100-SXM4-80GB")
    assert spec_of("  nvidia  h200 ").flops["fp8"] == 1979e12


def test_a_slice_of_a_card_has_no_sheet():
    assert spec_of("NVIDIA H100 80GB HBM3 MIG 1g.10gb") is None


def test_unified_memory_is_marked():
    assert spec_of("NVIDIA GB10").unified_memory
    assert not spec_of("NVIDIA GH200 480GB").unified_memory


def test_no_name_stands_for_two_products():
    rows = yaml.safe_load(paths.data("gpu_specs.yaml").read_text(encoding="utf-8"))["gpus"]
    names = [n for row in rows for n in {gpu_words._plain(name) for name in row["nvml_names"]}]
    assert len(names) == len(set(names))
