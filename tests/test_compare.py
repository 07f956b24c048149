"""Numbers are held against each other under like conditions only; settings may differ, that is the finding."""

from __future__ import annotations

import pytest

from dflash_doctor.model import Evidence, Setting
from tests.rules.build import card, held, signal, snapshot, speed


def keys(c):
    return [d.key for d in c.drifts]


def test_other_lengths_are_another_number():
    c = held(snapshot(samples=[speed(50.0, input_tokens=8000)]), snapshot(samples=[speed(80.0, input_tokens=1000)]))
    assert c.deltas == ()
    assert "no workload in common" in c.gaps[0].why


def test_other_concurrency_is_another_number():
    c = held(snapshot(samples=[speed(50.0, 2)]), snapshot(samples=[speed(80.0, 1)]))
    assert c.deltas == ()


def test_a_value_per_prompt_is_not_held_against_one_of_the_whole_round():
    each = [speed(50.0).__class__("output_tok_s", 50.0, "chat", 1, prompt="p1")]
    assert held(snapshot(samples=each), snapshot(samples=[speed(80.0)])).deltas == ()


def test_what_differs_is_told_the_most_telling_first():
    now = snapshot(settings={"serve.port": 8001, "cudagraph.mode": "none", "parallel.tp": 2})
    was = snapshot(settings={"serve.port": 8000, "cudagraph.mode": "full", "parallel.tp": 2})
    assert keys(held(now, was)) == ["cudagraph.mode"]


def test_a_flag_that_only_one_side_has_differs_when_the_other_would_have_said():
    flag = Setting("sched.max_seqs", 6, "asked", "--max-num-seqs")
    other = Setting("model.path", "/m", "asked", "--model")
    with_flags = snapshot(settings={"sched.max_seqs": flag, "model.path": other})
    assert "sched.max_seqs" in keys(held(with_flags, snapshot(settings={"model.path": other})))
    assert "sched.max_seqs" not in keys(held(with_flags, snapshot(settings={"cudagraph.mode": "full"})))


def test_an_argument_that_is_in_only_one_of_two_whole_lists_differs():
    def said(key, value):
        return Setting(key, value, "effective", evidence=Evidence("server.log", "server_args={'model_path': '/m', …}"))

    alike = {"model.path": said("model.path", "/m")}
    window = {"spec.draft_window": said("spec.draft_window", 2048)}
    was, now = snapshot("sglang", settings=alike | window), snapshot("sglang", settings=alike)
    assert keys(held(now, was)) == ["spec.draft_window"]
    # a log that shows no list of arguments says nothing of what it leaves out
    assert keys(held(snapshot("sglang", settings={"model.path": "/m"}), was)) == []


def test_a_knob_that_the_other_engine_does_not_have_is_no_difference():
    def asked(key, value):
        return Setting(key, value, "asked")

    was = snapshot(
        "sglang", settings={"spec.num_steps": asked("spec.num_steps", 3), "model.path": asked("model.path", "/m")}
    )
    now = snapshot("vllm", settings={"model.path": asked("model.path", "/m")})
    assert "spec.num_steps" not in keys(held(now, was))
    assert "spec.num_steps" in keys(held(snapshot("sglang", settings=dict(now.settings)), was))


def test_packages_driver_and_version_read_like_settings():
    now = snapshot(version="0.28.0", packages={"torch": "2.11"}, host={"driver_version": "590"})
    was = snapshot(version="0.27.1", packages={"torch": "2.10"}, host={"driver_version": "580"})
    assert set(keys(held(now, was))) == {"engine.version", "package.torch", "gpu.driver"}


def test_other_cards_are_told_as_what_is_unlike():
    c = held(snapshot(readings=[card(name="NVIDIA GB10")]), snapshot(readings=[card(name="NVIDIA H800")]))
    assert c.unlike == ("GPU: NVIDIA GB10 here, NVIDIA H800 in the baseline",)


def test_a_warning_that_the_baseline_did_not_have_is_new():
    old, new = signal("unknown", "WARNING old"), signal("unknown", "WARNING new")
    assert held(snapshot(signals=[old, new]), snapshot(signals=[old])).fresh == (new,)


def test_lines_of_the_baseline_are_marked_as_such():
    c = held(snapshot(), snapshot(signals=[signal("x", "y")]))
    assert c.was.signals[0].evidence.source == "baseline: server.log"


@pytest.mark.parametrize(
    ("key", "now", "was"),
    [
        ("model.dtype", "auto", "bfloat16"),
        ("model.path", "/data/Qwen3.6-27B", "/models/Qwen3.6-27B"),
        ("mem.fraction", 0.9, 0.90),
    ],
)
def test_two_ways_to_say_the_same_are_no_difference(key, now, was):
    assert keys(held(snapshot(settings={key: now}), snapshot(settings={key: was}))) == []


@pytest.mark.parametrize(("metric", "was", "now"), [("req_s", 1.35, 1.06), ("e2e_ms", 740.0, 938.0)])
def test_longer_answers_take_longer_and_that_is_no_regression(metric, was, now):
    def asked(value, tokens, of=metric):
        return snapshot(samples=[speed(value, metric=of, workload="battery", max_tokens=tokens)])

    assert held(asked(now, 64), asked(was, 48)).deltas == ()
    assert [d.metric for d in held(asked(now, 48), asked(was, 48)).deltas] == [metric]
    # a rate of tokens is what it is, however many there were
    rate = held(asked(70.0, 64, "output_tok_s"), asked(70.0, 48, "output_tok_s"))
    assert [d.verdict for d in rate.deltas] == ["same"]


def test_prompts_of_quite_another_mean_length_are_another_number():
    def bench(value, tokens):
        return snapshot(samples=[speed(value, mean_input_tokens=tokens)])

    assert held(bench(561.0, 3000.0), bench(1690.0, 250.0)).deltas == ()
    assert held(bench(561.0, 260.0), bench(1690.0, 250.0)).deltas[0].verdict == "worse"
