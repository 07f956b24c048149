"""The simulated nvidia-smi answers as the real one, idle and under load."""

from __future__ import annotations

import time
from xml.etree import ElementTree

import pytest

from dflash_doctor.simulate import nvidia_smi

FACTS = {
    "driver": "580.95.05",
    "cuda": "13.0",
    "jitter": 0.0,
    "topology": "\tGPU0\tGPU1\n",
    "gpus": [
        {
            "each": {
                "index": i,
                "uuid": f"GPU-{i}",
                "pci.bus_id": f"00000000:0{i}:00.0",
                "name": "NVIDIA RTX A6000",
                "memory.total": 49140,
                "memory.used": 43310,
                "power.limit": 300.0,
                "clocks.max.sm": 2100,
                "pcie.link.width.current": 16,
                "temperature.memory": None,
                "clocks_event_reasons_counters.sw_power_cap": 5,
            },
            "idle": {"clocks.sm": 210, "clocks_event_reasons.active": "0x0000000000000001"},
            "load": {"clocks.sm": 1785, "clocks_event_reasons.active": "0x0000000000000004", "power.draw": 262.5},
            "rates": {"clocks_event_reasons_counters.sw_power_cap": 1000.0},
            "processes": [{"pid": 2251, "name": "VLLM::Worker_TP0", "used_memory": 43290}],
        }
        for i in range(2)
    ],
}
BUSY = f"10 {time.time()}"


def smi(*arguments, busy="0"):
    return nvidia_smi.answer(FACTS, busy, list(arguments))


def test_values_come_with_their_units_or_without():
    assert smi("--query-gpu=index,clocks.sm,power.limit", "--format=csv") == (
        0,
        "index, clocks.sm [MHz], power.limit [W]\n0, 210 MHz, 300.00 W\n1, 210 MHz, 300.00 W\n",
    )
    assert smi("--query-gpu=clocks.sm,memory.free", "--format=csv,noheader,nounits", "-i", "1") == (0, "210, 5830\n")


def test_under_load_the_clocks_rise_and_the_counters_run():
    query = "--query-gpu=clocks.sm,clocks_event_reasons.sw_power_cap,clocks_event_reasons_counters.sw_power_cap"
    _, idle = smi(query, "--format=csv,noheader,nounits", busy="0")
    _, load = smi(query, "--format=csv,noheader,nounits", busy=BUSY)
    assert idle.splitlines()[0] == "210, Not Active, 5"
    clocks, cap, counter = load.splitlines()[0].split(", ")
    assert (clocks, cap) == ("1785", "Active")
    assert int(counter) >= 10005


def test_what_is_not_supported_is_not_a_number():
    assert smi("--query-gpu=temperature.memory,ecc.mode.current", "--format=csv,noheader")[1] == (
        "[N/A], [N/A]\n[N/A], [N/A]\n"
    )


def test_one_unknown_name_fails_the_whole_query():
    status, text = smi("--query-gpu=name,clocks.warp", "--format=csv")
    assert status == 2 and 'Field "clocks.warp" is not a valid field' in text


def test_old_names_are_still_understood():
    assert smi("--query-gpu=clocks_throttle_reasons.active", "--format=csv,noheader", "-i", "0")[1] == (
        "0x0000000000000001\n"
    )


def test_processes_are_listed_by_card():
    _, text = smi("--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv,noheader,nounits")
    assert text.splitlines()[1] == "GPU-1, 2251, VLLM::Worker_TP0, 43290"


def test_the_long_form_is_xml_with_the_same_values():
    status, text = smi("-q", "-x", busy=BUSY)
    gpu = ElementTree.fromstring(text.split("\n", 2)[2]).find("gpu")
    assert status == 0 and gpu is not None
    assert gpu.findtext("clocks/sm_clock") == "1785 MHz"
    assert gpu.findtext("pci/pci_gpu_link_info/link_widths/current_link_width") == "16x"
    assert gpu.findtext("temperature/memory_temp") == "N/A"
    assert gpu.findtext("processes/process_info/pid") == "2251"


def test_a_host_without_cards_has_no_driver_to_talk_to():
    status, text = nvidia_smi.answer({**FACTS, "gpus": []}, "0", ["--query-gpu=name", "--format=csv"])
    assert status == 9 and "couldn't communicate" in text


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [(["-l", "1"], 1.0), (["--loop=2"], 2.0), (["-lms", "500"], 0.5), (["--loop-ms=250"], 0.25), (["-q"], None)],
)
def test_it_repeats_itself_when_asked(arguments, seconds):
    assert nvidia_smi.loop_seconds(arguments) == seconds
