"""host.json, capture.yaml and the models' config.json: facts about the machine, the visit and what is served."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.model import Gap, Unreadable
from dflash_doctor.parsers import capture_yaml, host, model_config
from tests.reading import facts_or_reason


def facts(**fields):
    return host.parse(json.dumps(fields), "host.json")


def test_facts_are_kept_as_they_are():
    said = {"cpu_model": "Neoverse-V2", "cpus": 144, "devices": ["/dev/nvidia0"], "numa_nodes": {"0": "0-71"}}
    assert facts(**said).host == said


def test_numbers_written_as_text_are_numbers():
    assert facts(cpus="128", cpu_mhz="3700.0 MHz", load="1.8 1.7 1.6").host == {
        "cpus": 128,
        "cpu_mhz": 3700.0,
        "load": [1.8, 1.7, 1.6],
    }


@pytest.mark.parametrize("quota", ["600000 100000", [600000, 100000], 600000, "600000"])
def test_a_quota_is_read_however_it_is_written(quota):
    assert facts(cgroup={"cpu_max": quota, "nr_periods": "611"}).host["cgroup"]["cpu_max"].startswith("600000")


def test_processes_may_stand_alone_or_under_their_pid():
    row = {"pid": 88, "name": "VLLM::EngineCore", "cpu_percent": "99.5 %"}
    expected = [{"pid": 88, "name": "VLLM::EngineCore", "cpu_percent": 99.5}]
    assert facts(processes=row).host["processes"] == expected
    assert facts(processes={"88": {k: v for k, v in row.items() if k != "pid"}}).host["processes"] == expected
    assert facts(processes=[row, "junk"]).host["processes"] == expected


def test_cores_given_as_a_list_read_like_the_kernels_text():
    assert facts(affinity=[{"gpu": 0, "cpus": [0, 1, 2]}]).host["affinity"] == [{"gpu": 0, "cpus": "0,1,2"}]


def test_a_probe_that_failed_is_a_gap_and_not_a_fact():
    found = facts(governor={"error": "permission denied"}, cpus="many", virt=None)
    assert found.host == {}
    assert found.gaps == (
        Gap("host.json: governor", "permission denied"),
        Gap("host.json: cpus", "not what it should be: many"),
    )


def test_packages_kept_here_are_packages():
    assert facts(packages={"torch": "2.9.1"}).packages == {"torch": "2.9.1"}


@pytest.mark.parametrize("text", ["[]", "3", "null", "{", ""])
def test_what_is_no_object_is_refused(text):
    with pytest.raises(Unreadable):
        host.parse(text, "host.json")


# -- capture.yaml -----------------------------------------------------------------------------------------------------


def visit(text):
    return capture_yaml.parse(text, "capture.yaml")


def test_a_visit_is_dated_in_utc():
    assert visit("host: gpu-a\ntaken_at: 2026-05-06T12:20:00+02:00\nengine: vLLM\n").host == {
        "host": "gpu-a",
        "taken_at": "2026-05-06T10:20:00Z",
        "engine": "vllm",
    }


def test_a_time_without_a_zone_gets_none():
    assert visit("taken_at: 2026-05-06 10:20:00").host["taken_at"] == "2026-05-06T10:20:00"


def test_gaps_are_sentences_or_pairs():
    assert visit("gaps: [{what: gpu, why: no driver}, the kernel log was not readable]").gaps == (
        Gap("gpu", "no driver"),
        Gap("capture", "the kernel log was not readable"),
    )


@pytest.mark.parametrize(
    "text", ["- a\n- b", "just words", "a: [", "host: *nobody", "taken_at: 2026-13-45", "[" * 5000]
)
def test_a_capture_yaml_that_is_none_is_refused(text):
    with pytest.raises(Unreadable):
        visit(text)


def test_a_yaml_that_unfolds_into_millions_is_harmless():
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)
    )
    assert visit(bomb).host["a"] == ["x"] * 9


# -- config.json ------------------------------------------------------------------------------------------------------


def test_a_models_shape_is_kept_under_one_name_for_every_family():
    config = {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "text_config": {"num_hidden_layers": 64, "num_key_value_heads": 4, "dtype": "bfloat16"},
        "quantization_config": {"quant_method": "fp8"},
    }
    found = model_config.parse(json.dumps(config), "model_config.json")
    assert found.host["model_config"] == {
        "layers": 64,
        "kv_heads": 4,
        "dtype": "bfloat16",
        "quantization": "fp8",
        "architecture": "Qwen3_5ForConditionalGeneration",
    }
    assert found.settings[0].value == "Qwen3_5ForConditionalGeneration"


def test_the_drafters_shape_is_not_the_models():
    found = model_config.parse(
        '{"architectures": ["DFlashDraftModel"], "num_layers": 5, "block_size": 16}', "draft_config.json"
    )
    assert found.host == {"draft_config": {"layers": 5, "block_size": 16, "architecture": "DFlashDraftModel"}}
    assert found.settings == ()


# -- anything ---------------------------------------------------------------------------------------------------------

NAMES = ("cpus", "load", "cgroup", "processes", "affinity", "numa_nodes", "virt", "error", "pid", "cpu_max", "gaps")
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(anything, st.text())
def test_anything_gives_facts_or_a_reason(value, text):
    for parse, name in ((host.parse, "host.json"), (model_config.parse, "model_config.json")):
        facts_or_reason(parse, json.dumps(value), name)
        facts_or_reason(parse, text, name)
    facts_or_reason(capture_yaml.parse, text, "capture.yaml")
    facts_or_reason(capture_yaml.parse, json.dumps(value), "capture.yaml")
