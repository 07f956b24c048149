"""What is made of the rules' words: weighed, linked, owned, and one verdict."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dflash_doctor.compare import compare
from dflash_doctor.diagnose import diagnose
from dflash_doctor.model import Comparison, Sample, Setting
from dflash_doctor.physics import slowdown
from tests.rules.build import card, held, signal, snapshot, speed, steps


def served(tok_s, length=None, workload="chat", **settings):
    samples = [speed(tok_s, workload=workload)]
    if length:
        samples.append(speed(length, metric="accept_length", workload=workload))
    return snapshot(settings=settings, samples=samples)


def story():
    poor = steps(1, 17.7, accept_length=1.17, per_position=(0.12, 0.033, 0.01))
    now = snapshot(
        settings={"spec.method": "dflash", "spec.depth": 15, "spec.draft_model": "/models/dflash"},
        samples=[speed(17.7), speed(1.17, metric="accept_length")],
        intervals=[poor],
        version="0.20.1",
    )
    was = snapshot(
        "sglang",
        settings={"spec.method": "mtp", "spec.depth": 3},
        samples=[speed(73.5), speed(3.2, metric="accept_length")],
    )
    return diagnose(held(now, was), "gpu7")


def test_the_story_names_the_drafter_first_and_its_share():
    d = story()
    assert d.verdict == "regressed"
    assert d.findings[0].cause == "spec.drafter_undertrained"
    assert d.findings[0].impact.factor == pytest.approx(1.17 / 3.2, rel=0.01)
    assert d.slowdown.parts[0].cause == "spec.drafter_undertrained"


def test_the_parts_of_a_slow_down_multiply_to_the_whole():
    s = story().slowdown
    assert math.prod(p.factor for p in s.parts) == pytest.approx(s.factor)


def test_an_effect_goes_under_the_root_that_explains_it():
    d = story()
    assert "spec.acceptance_collapse" in d.findings[0].effects
    assert "spec.acceptance_collapse" not in [f.cause for f in d.findings]


def test_a_fault_whose_factor_did_not_move_is_not_why():
    now = served(30.0, 1.2, **{"spec.method": "mtp", "attention.backend": "triton"})
    was = served(80.0, 3.2, **{"spec.method": "mtp", "attention.backend": "flashinfer"})
    finding = next(f for f in diagnose(held(now, was), "x").findings if f.cause == "attention.backend_changed")
    assert "did not get worse, so it cannot be why" in finding.against[-1]
    assert finding.confidence < 0.5


def test_a_difference_without_a_slow_down_stays_information():
    now = served(80.0, **{"attention.backend": "triton", "spec.method": "none"})
    was = served(80.5, **{"attention.backend": "flashinfer", "spec.method": "none"})
    d = diagnose(held(now, was), "x")
    assert d.verdict == "healthy"
    assert {f.severity for f in d.findings} == {"info"}


def test_a_release_is_blamed_only_for_what_nothing_else_explains():
    alone = diagnose(held(_release("0.28.0", 60.0), _release("0.27.1", 120.0)), "x").findings[0]
    eager = Setting("cudagraph.mode", "none", "effective", "--enforce-eager")
    both = diagnose(held(_release("0.28.0", 60.0, eager), _release("0.27.1", 120.0, "full")), "x")
    assert alone.cause == "version.engine_regression"
    assert alone.confidence > 0.8
    assert both.findings[0].cause == "cudagraph.disabled"
    assert all(f.confidence < 0.2 for f in both.findings if f.cause == "version.engine_regression")


def _release(version, tok_s, mode="full"):
    return snapshot(version=version, settings={"cudagraph.mode": mode, "spec.method": "none"}, samples=[speed(tok_s)])


def test_a_server_against_itself_is_healthy():
    same = served(80.0, 3.0, **{"spec.method": "mtp"})
    assert diagnose(held(same, same), "x").verdict == "healthy"


def test_nothing_seen_is_inconclusive_and_never_healthy():
    assert diagnose(Comparison(now=snapshot(engine=None)), "x").verdict == "inconclusive"


def test_a_text_that_only_names_an_engine_is_inconclusive_and_never_healthy():
    assert diagnose(Comparison(now=snapshot(engine="vllm")), "x").verdict == "inconclusive"


def test_cards_without_an_engine_are_inconclusive_and_never_healthy():
    assert diagnose(Comparison(now=snapshot(engine=None, readings=[card(0)])), "x").verdict == "inconclusive"


def test_a_number_alone_is_inconclusive_without_anything_to_hold_against_it():
    now = snapshot(engine=None, samples=[speed(50.0)])
    assert diagnose(Comparison(now=now), "x").verdict == "inconclusive"
    assert diagnose(compare(now, snapshot(samples=[speed(50.0)])), "x").verdict == "healthy"


def test_no_numbers_in_common_with_the_baseline_is_inconclusive():
    d = diagnose(held(served(80.0, workload=None), snapshot(samples=[])), "x")
    assert d.verdict == "inconclusive"
    assert d.gaps[-1].why == "the baseline holds no numbers"


def test_other_hardware_is_not_comparable():
    from tests.rules.build import card

    now = snapshot(samples=[speed(50.0)], readings=[card(name="NVIDIA GB10")])
    was = snapshot(samples=[speed(80.0)], readings=[card(name="NVIDIA H100 80GB HBM3")])
    assert diagnose(held(now, was), "x").verdict == "not_comparable"


def test_a_server_that_does_not_come_up_is_suspect_without_a_number():
    said = signal("unknown", "ERROR [x.py:1] ValueError: no", "ERROR")
    d = diagnose(Comparison(now=snapshot(signals=[said], served=False)), "x")
    assert (d.verdict, d.findings[0].cause) == ("suspect", "server.failing")


def test_step_time_that_was_measured_leaves_a_residual():
    def side(tok_s, length, step):
        more = [Sample("step_time_ms", step, workload="chat", concurrency=1)]
        return snapshot(
            samples=[speed(tok_s), speed(length, metric="accept_length"), *more], settings={"spec.method": "mtp"}
        )

    parts = slowdown(held(side(20.0, 1.2, 50.0), side(80.0, 3.2, 40.0))).parts
    assert [p.name for p in parts] == ["tokens per step", "step time", "not explained"]
    assert math.prod(p.factor for p in parts) == pytest.approx(0.25)


def test_a_fault_of_a_factor_that_nobody_measured_is_no_reason_for_what_was():
    on = snapshot(settings={"sched.prefix_cache": True}, samples=[speed(80.0)])
    off = snapshot(settings={"sched.prefix_cache": False}, samples=[speed(50.0)])
    decoding = diagnose(compare(off, on), "x").findings[0]
    assert decoding.cause == "kv.prefix_cache_off" and decoding.confidence < 0.5
    assert "which was not measured" in decoding.against[0]
    first = [speed(300.0, metric="ttft_ms")], [speed(900.0, metric="ttft_ms")]
    waiting = diagnose(
        compare(replace(off, samples=(*off.samples, *first[1])), replace(on, samples=(*on.samples, *first[0]))), "x"
    )
    assert waiting.findings[0].confidence > 0.8
