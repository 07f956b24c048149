"""nvidia-smi in all its forms says the same under the same names."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.model import Gap, Unreadable
from dflash_doctor.parsers import nvidia_smi
from tests.reading import facts_or_reason

SAMPLES = Path(__file__).parent / "samples" / "nvidia-smi"


def read(name, cut=None):
    return nvidia_smi.parse((SAMPLES / name).read_text(encoding="utf-8")[:cut], name)


def test_xml_gives_the_names_and_units_of_a_query():
    first, second = read("two-a6000.xml").readings
    assert first.values["name"] == second.values["name"] == "NVIDIA RTX A6000"
    assert first.values["power.limit"] == 200.0
    assert first.values["power.default_limit"] == 300.0
    assert first.values["pcie.link.width.current"] == 8
    assert first.values["clocks_event_reasons_counters.sw_power_cap"] == 61533210
    assert first.values["processes"] == [{"pid": 2114, "name": "VLLM::Worker_TP0", "type": "C", "used_memory": 41190}]


def test_reasons_given_one_by_one_make_the_mask():
    assert read("two-a6000.xml").readings[0].values["clocks_event_reasons.active"] == "0x0000000000000004"
    assert read("h100-mig.q.txt").readings[0].values["clocks_event_reasons.active"] == "0x0000000000000048"


def test_nobody_says_whether_there_was_load():
    assert {r.load for name in ("two-a6000.xml", "two-3090.txt", "query.csv") for r in read(name).readings} == {None}


def test_the_driver_is_a_fact_of_the_host():
    assert read("two-a6000.xml").host == {"driver_version": "570.133.20", "cuda_version": "12.8"}
    assert read("tesla-old.txt").host == {"driver_version": "440.33.01", "cuda_version": "10.2"}


def test_a_failed_read_is_a_gap():
    assert read("two-a6000.xml").gaps == (Gap("two-a6000.xml: power.draw of GPU 1", "Unknown Error"),)


def test_the_long_text_says_the_same_as_the_xml():
    values = read("h100-mig.q.txt").readings[0].values
    assert values["temperature.memory"] == 94
    assert values["remapped_rows.pending"] == "Yes"
    assert values["ecc.errors.uncorrected.volatile.total"] == 1
    assert values["power.limit"] == 700.0, "of the GPU, not of the module"
    assert values["processes"][0]["name"] == "VLLM::EngineCore"


@pytest.mark.parametrize("name", ["h100-mig.txt", "h100-mig.q.txt"])
def test_slices_are_seen_in_the_table_and_in_the_text(name):
    facts = read(name)
    assert facts.readings[0].values["mig.mode.current"] == "Enabled"
    assert len(facts.host["mig_devices"]) == 1
    assert "16 multiprocessors" in facts.host["mig_devices"][0]


def test_a_table_gives_clock_free_facts_with_their_lines():
    first, second = read("two-3090.txt").readings
    assert (first.values["power.draw"], first.values["power.limit"], first.values["utilization.gpu"]) == (195, 290, 82)
    assert first.line == 9
    assert second.values["power.draw"] == Gap("power.draw", "ERR!")


def test_a_table_names_who_shares_the_card():
    first, second = read("two-3090.txt").readings
    assert [p["name"] for p in first.values["processes"]] == ["/usr/lib/xorg/Xorg", "python3 train.py --epochs 3"]
    assert second.values["processes"][0]["used_memory"] == 22084


def test_no_running_processes_is_an_answer():
    assert read("tesla-old.txt").readings[0].values["processes"] == []


def test_a_name_cut_to_its_column_is_no_name():
    facts = read("tesla-old.txt")
    assert "name" not in facts.readings[0].values
    assert "cut" in facts.gaps[0].why


def test_a_table_printed_every_second_gives_a_reading_each_time():
    text = (SAMPLES / "two-3090.txt").read_text(encoding="utf-8") * 3
    assert [r.t for r in nvidia_smi.parse(text, "nvidia-smi.txt").readings if r.index == 0] == [0.0, 1.0, 2.0]


def test_csv_keeps_columns_it_does_not_know():
    facts = read("query.csv")
    assert facts.readings[0].values["something.new"] == "blue"
    assert facts.readings[2].t - facts.readings[0].t == pytest.approx(1.0)
    assert facts.readings[0].values["clocks_event_reasons.active"] == "0x0000000000000004"


def test_csv_without_its_head_cannot_be_read():
    with pytest.raises(Unreadable, match="noheader"):
        nvidia_smi.parse("0, NVIDIA RTX A6000, 1785, 262.01\n1, NVIDIA RTX A6000, 1785, 261.00\n", "nvidia-smi.csv")


def test_csv_of_processes_finds_their_cards():
    text = (
        "index, uuid, name\n0, GPU-aa, NVIDIA L4\n1, GPU-bb, NVIDIA L4\n"
        "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-bb, 42, python3, 900 MiB\n"
    )
    first, second = nvidia_smi.parse(text, "nvidia-smi.csv").readings
    assert first.values["processes"] == []
    assert second.values["processes"] == [{"pid": 42, "name": "python3", "used_memory": 900}]


def test_the_list_of_cards_and_slices_is_read():
    facts = nvidia_smi.parse(
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d)\n  MIG 3g.20gb     Device  0: (UUID: MIG-6b)\n", "nvidia-smi.txt"
    )
    assert facts.readings[0].values["name"] == "NVIDIA A100-SXM4-40GB"
    assert facts.host["mig_devices"] == ["GPU 0 MIG device 0: 3g.20gb"]


def test_a_cut_file_gives_what_stood_before_the_cut():
    text = (SAMPLES / "two-a6000.xml").read_text(encoding="utf-8")
    facts = read("two-a6000.xml", text.index('<gpu id="00000000:61') + 40)
    assert facts.readings[0].values["clocks.sm"] == 1410
    assert any("cut off" in g.why for g in facts.gaps)


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that …",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.142\n",
        "No devices were found",
    ],
)
def test_a_refusal_is_told_in_its_own_words(text):
    with pytest.raises(Unreadable, match=text[:24]):
        nvidia_smi.parse(text, "nvidia-smi.txt")


@pytest.mark.parametrize("name", sorted(p.name for p in SAMPLES.iterdir()))
def test_cut_anywhere_it_stays_readable_or_says_why(name):
    whole = (SAMPLES / name).read_text(encoding="utf-8")
    for cut in range(0, len(whole), max(1, len(whole) // 60)):
        facts_or_reason(nvidia_smi.parse, whole[:cut], name)


@pytest.mark.parametrize("name", sorted(p.name for p in SAMPLES.iterdir()))
def test_windows_line_ends_change_nothing(name):
    text = (SAMPLES / name).read_text(encoding="utf-8")
    plain, windows = nvidia_smi.parse(text, name), nvidia_smi.parse(text.replace("\n", "\r\n"), name)
    assert [r.values for r in plain.readings] == [r.values for r in windows.readings]


@pytest.mark.parametrize(
    "text",
    [
        "<nvidia_smi_log>" * 20_000,
        "<nvidia_smi_log>" + "<gpu>" * 100_000,
        "NVIDIA-SMI\n|" + " " * 500_000,
        "NVIDIA-SMI\n" + "|   0  N" + "a " * 200_000 + "|",
        "index, uuid\n" + "".join(f"{i % 9}, GPU-{i}\n" for i in range(20_000)),
        "==NVSMI LOG==\n" + "".join(" " * i + "a\n" for i in range(1500)),
    ],
)
def test_hostile_text_is_read_in_linear_time(text):
    begun = time.monotonic()
    facts_or_reason(nvidia_smi.parse, text, "nvidia-smi.txt")
    assert time.monotonic() - begun < 3


@given(st.text())
def test_any_text_gives_facts_or_a_reason(text):
    for head in (
        "",
        "<nvidia_smi_log>",
        "NVIDIA-SMI\n| ",
        "==NVSMI LOG==\nGPU 00000000:41:00.0\n    ",
        "index, name\n",
    ):
        facts_or_reason(nvidia_smi.parse, head + text, "nvidia-smi.txt")
