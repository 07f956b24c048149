"""gpu.json: one reading per card and moment, with a value, "not supported" and "failed" kept apart."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.model import Gap, Unreadable
from dflash_doctor.parsers import gpu
from tests.reading import facts_or_reason

CARD = {
    "index": 0,
    "name": "NVIDIA RTX A6000",
    "clocks.sm": 1785,
    "clocks_event_reasons.active": "0x0000000000000004",
    "power.draw": 262.0,
    "power.limit": 300.0,
    "utilization.gpu": 97,
}


def parse(*cards, load=True, **top):
    return gpu.parse(json.dumps({**top, "samples": [{"t": 0.5, "load": load, "gpus": list(cards)}]}), "gpu.json")


def test_a_reading_carries_its_moment_and_whether_there_was_load():
    (r,) = parse(CARD, driver_version="580.142").readings
    assert (r.index, r.t, r.load) == (0, 0.5, True)
    assert r.values["power.draw"] == 262.0
    assert r.values["clocks_event_reasons.active"] == "0x0000000000000004"


def test_the_driver_is_a_fact_of_the_host():
    facts = parse(CARD, driver_version="580.142", cuda_version=13.0, vbios="94.02.5C.00.02")
    assert facts.host == {"driver_version": "580.142", "cuda_version": "13.0", "vbios_version": "94.02.5C.00.02"}


def test_not_supported_failed_and_zero_are_three_things():
    facts = parse({**CARD, "temperature.memory": None, "power.draw": {"error": "Unknown Error"}, "fan.speed": 0})
    values = facts.readings[0].values
    assert values["temperature.memory"] is None
    assert values["power.draw"] == Gap("power.draw", "Unknown Error")
    assert values["fan.speed"] == 0
    assert facts.gaps == (Gap("gpu.json: power.draw of GPU 0", "Unknown Error"),)


def test_a_value_the_rules_need_and_the_card_lacks_is_a_gap():
    facts = parse({**CARD, "index": 0, "power.limit": None}, {**CARD, "index": 1, "power.limit": None})
    assert facts.gaps == (Gap("gpu.json: power.limit of GPU 0, 1", "this card or driver does not report it"),)


def test_a_lost_card_is_one_gap_not_thirty():
    lost = {k: {"error": "GPU is lost"} for k in CARD if k != "index"}
    facts = parse(CARD, {**lost, "index": 1})
    assert len(facts.gaps) == 1
    assert facts.gaps[0].why == "GPU is lost"
    assert facts.gaps[0].what.endswith("2 more of GPU 1")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("262.00 W", 262.0),
        ("250,5 W", 250.5),
        ("[N/A]", None),
        ("[Not Supported]", None),
        ("97 %", 97),
        ("ERR!", Gap("power.draw", "ERR!")),
        ("[Unknown Error]", Gap("power.draw", "Unknown Error")),
        ("[GPU requires reset]", Gap("power.draw", "GPU requires reset")),
        ("262000 mW", 262.0),
    ],
)
def test_people_copy_what_nvidia_smi_printed(written, meant):
    assert parse({**CARD, "power.draw": written}).readings[0].values["power.draw"] == meant


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("clocks_throttle_reasons.active", "clocks_event_reasons.active"),
        ("clocks.current.sm [MHz]", "clocks.sm"),
        ("clocks.max.memory", "clocks.max.mem"),
        ("pcie.link.gen.gpucurrent", "pcie.link.gen.current"),
        ("gpu_name", "name"),
    ],
)
def test_older_and_longer_names_are_the_same_value(old, new):
    assert new in parse({"index": 0, old: "0x0000000000000001"}).readings[0].values


def test_a_mask_written_as_a_number_is_a_mask():
    assert parse({"index": 0, "clocks_event_reasons.active": 4}).readings[0].values == {
        "clocks_event_reasons.active": "0x0000000000000004"
    }


def test_what_only_nvml_knows_stands_apart():
    values = parse({**CARD, "nvml": {"pcie_replay": 3, "fabric": {"error": "Not permitted"}}}).readings[0].values
    assert values["nvml.pcie_replay"] == 3
    assert values["nvml.fabric"] == Gap("nvml.fabric", "Not permitted")


def test_processes_come_with_pid_name_and_mebibytes():
    seen = [{"pid": "90112", "process_name": "python3", "used_gpu_memory": "29590 MiB"}]
    assert parse({**CARD, "processes": seen}).readings[0].values["processes"] == [
        {
            "process_name": "python3",
            "used_gpu_memory": "29590 MiB",
            "pid": 90112,
            "name": "python3",
            "used_memory": 29590,
        }
    ]


@pytest.mark.parametrize(
    ("written", "meant"), [(True, True), ("idle", False), ("during", True), (None, None), ("maybe", None), (1, True)]
)
def test_load_is_known_only_when_somebody_said_so(written, meant):
    assert parse(CARD, load=written).readings[0].load is meant


@pytest.mark.parametrize(
    "shape",
    [
        {"gpus": [CARD]},
        [CARD],
        CARD,
        [{"t": 0, "gpus": [CARD]}],
        {"samples": [{"gpus": {"0": CARD}}]},
        {"samples": {"gpus": [CARD]}},
    ],
)
def test_hand_made_files_are_read_kindly(shape):
    (reading,) = gpu.parse(json.dumps(shape), "gpu.json").readings
    assert reading.values["name"] == "NVIDIA RTX A6000"


def test_samples_without_times_keep_their_order():
    text = json.dumps({"samples": [{"gpus": [CARD]}, {"gpus": [CARD]}]})
    assert [r.t for r in gpu.parse(text, "gpu.json").readings] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "no GPU samples"),
        ('{"error": "nvidia-smi not found"}', "nvidia-smi not found"),
        ("[1, 2]", "no GPU samples"),
        ('{"samples": [', "not JSON"),
        ("", "empty"),
        ("\x00\x01\x02" * 90, "binary"),
        ("[" * 100_000, "nested"),
    ],
)
def test_what_holds_no_gpu_is_said_in_words(text, why):
    with pytest.raises(Unreadable, match=why):
        gpu.parse(text, "gpu.json")


def test_an_entry_that_is_no_card_is_a_gap_and_the_rest_is_read():
    facts = parse("GPU is lost", CARD)
    assert len(facts.readings) == 1
    assert facts.gaps[0].what == "gpu.json: GPU 0"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([*CARD, "samples", "gpus", "nvml", "processes", "error", "t"]), inner, max_size=5
        )
    ),
    max_leaves=20,
)


@given(json_values)
def test_any_json_gives_facts_or_a_reason(value):
    facts_or_reason(gpu.parse, json.dumps(value), "gpu.json")


@given(st.text())
def test_any_text_gives_facts_or_a_reason(text):
    facts_or_reason(gpu.parse, text, "gpu.json")
