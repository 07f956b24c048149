"""Scenarios: small to write, clear when wrong."""

from __future__ import annotations

import pytest

from dflash_doctor.model import Refused
from dflash_doctor.simulate import scenario as scenarios
from dflash_doctor.simulate.logs import start_text


@pytest.mark.parametrize("name", scenarios.names())
def test_every_shipped_scenario_loads_and_fills_its_log(name):
    scenario = scenarios.load(name)
    text = start_text(scenario, 1796101362.0, 8011)
    assert "$" not in text, "every name in the log was known"
    assert len(scenario.about) > 20


def test_a_fault_is_a_few_lines_over_a_healthy_host(tmp_path):
    (tmp_path / "eager.yaml").write_text(
        "extends: a6000-dflash\nabout: graphs off\nflags: {enforce-eager: true, trust-remote-code: null}\n"
        "timing: {step_time_ms: 90}\nlog: {ready: {graphs: null}}\n"
    )
    eager, tuned = scenarios.load(tmp_path / "eager.yaml"), scenarios.load("a6000-dflash")
    assert eager.flags["enforce-eager"] is True and "trust-remote-code" not in eager.flags
    assert eager.timing.step_time_ms == {1: 90}, "one number stands for the whole table"
    assert "Graph capturing finished" not in start_text(eager, 0.0, 1)
    assert "'enforce_eager': True" in start_text(eager, 0.0, 1)
    assert "Graph capturing finished" in start_text(tuned, 0.0, 1)
    assert tuned.packages == eager.packages


def test_a_piece_of_log_finds_its_place_by_its_time():
    text = start_text(scenarios.load("a6000-dflash"), 0.0, 1)
    order = ["Loading weights took", "Loading drafter model", "Model loading took", "GPU KV cache size"]
    assert sorted(order, key=text.index) == order


def test_what_is_wrong_with_a_scenario_is_said_with_its_place(tmp_path):
    path = tmp_path / "wrong.yaml"
    path.write_text("extends: healthy\nabout: x\ntiming: {step_time_ms: -1}\nacceptance: {depht: 4}\n")
    with pytest.raises(Refused, match=r"timing\.step_time_ms.*positive") as e:
        scenarios.load(path)
    assert "acceptance.depht" in str(e.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[1, 2]", "not a mapping"),
        ("a: [", "cannot be read"),
        ("extends: nowhere", "no scenario 'nowhere'"),
        ("extends: loop.yaml", "extends itself"),
        ("\x00\x01", "cannot be read"),
        ("", "not a mapping"),
        ("extends: healthy\nabout: x\nacceptance: {length: 9}", "give either chances or length"),
        ("extends: healthy\nabout: x\nacceptance: {chances: null, length: 9}", "at most 4"),
        ("extends: healthy\nabout: x\nkinds: {a: {when: '('}}", "not a regular expression"),
    ],
)
def test_a_file_that_is_no_scenario_is_refused_in_words(tmp_path, content, says):
    (tmp_path / "loop.yaml").write_text(content)
    with pytest.raises(Refused, match=says):
        scenarios.load(tmp_path / "loop.yaml")


def test_an_unknown_name_lists_those_that_there_are():
    with pytest.raises(Refused, match="a6000-tuned"):
        scenarios.load("a6000-tunde")


def test_the_engines_write_what_they_resolved_as_python_would():
    vllm = start_text(scenarios.load("a6000-dflash"), 0.0, 8011)
    assert "model='/models/Qwen3.6-27B', speculative_config=SpeculativeConfig(method='dflash'," in vllm
    assert "tensor_parallel_size=2," in vllm and "quantization=None," in vllm
    assert "'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>" in vllm
    sglang = start_text(scenarios.load("a6000-tuned"), 0.0, 30000)
    assert "server_args=ServerArgs(model_path='/models/Qwen3.6-27B'," in sglang
    assert "port=30000" in sglang and "tp_size=2" in sglang and "quantization=None" in sglang


def test_varying_a_scenario_changes_what_is_named_and_nothing_else():
    tuned = scenarios.load("a6000-tuned")
    busy = scenarios.vary(tuned, traffic={"concurrency": 2}, timing={"noise": 0.5}, seed=3)
    assert busy.traffic is not None and busy.traffic.concurrency == 2
    assert busy.timing.noise == 0.5 and busy.timing.step_time_ms == tuned.timing.step_time_ms
    assert start_text(busy, 0.0, 1) == start_text(tuned, 0.0, 1)
