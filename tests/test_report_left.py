"""What is left beside the findings is said in few words: the meter of speculation, suspects, a plan."""

from __future__ import annotations

import pytest

from dflash_doctor.diagnose import diagnose
from dflash_doctor.model import BreakEven, Carry, Comparison, Diagnosis
from dflash_doctor.report import as_json, markdown, terminal
from dflash_doctor.report.left import meter
from tests.rules.build import card, held, snapshot, speed


def puzzling():
    alike = {"cudagraph.mode": "full", "compile.mode": "vllm_compile", "parallel.tp": 1}
    now = snapshot(
        settings=alike | {"sched.policy": "lpm", "mem.cpu_offload_gb": 8.0},
        samples=[speed(50.0)],
        readings=[card(clocks_sm=1800)],
    )
    was = snapshot(
        settings=alike | {"sched.policy": "fcfs", "mem.cpu_offload_gb": 0.0},
        samples=[speed(80.0)],
        readings=[card(clocks_sm=1800)],
    )
    return diagnose(held(now, was), "gpu7")


def test_a_loss_without_a_cause_names_what_was_cleared_what_was_not_seen_and_what_to_put_back():
    rows = terminal.render(puzzling())
    said = " ".join(rows.split())
    assert "Not explained: step time 0.63x" in said
    assert "as before cudagraph.disabled, compile.disabled, parallelism.changed, gpu.clock_throttle" in said
    assert "not seen attention.backend_changed (attention.backend, " in said
    assert " 1. mem.cpu_offload_gb: 0 -> 8" in said
    assert "put back the first of these and measure" in said
    assert max(map(len, rows.splitlines())) <= 80


def test_markdown_and_json_say_the_same():
    d = puzzling()
    assert "### Not explained: step time 0.63x" in markdown.render(d)
    doc = as_json.document(d)
    assert doc.unexplained[0].part == "step time" and doc.bisection.restarts == pytest.approx(1.0)
    assert [x.what for x in doc.leads] == ["mem.cpu_offload_gb: 0 -> 8", "sched.policy: fcfs -> lpm"]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (BreakEven(2.4, 1.6, True, 3), "speculation pays 1.50x: 2.40 tokens per step, 3 drafted, a drafted step costs"),
        (BreakEven(2.4, 1.12, False, 3), "speculation pays at most 2.14x"),
        (BreakEven(1.02, 1.16, False, 4), "speculation does not pay, turning it off gives at least 1.14x"),
        (BreakEven(1.2, 1.5, True, 4), "speculation does not pay, turning it off gives about 1.25x"),
        (BreakEven(2.45, 1.4, False, 10, 4, 1.15), "; drafting 4 would give about 1.15x"),
    ],
)
def test_the_meter_says_whether_speculation_pays(found, words):
    now = snapshot()
    assert words in meter(Diagnosis("x", "regressed", Comparison(now), break_even=found))


def test_a_healthy_server_hears_of_speculation_only_where_it_does_not_pay():
    pays, not_so = BreakEven(2.4, 1.12), BreakEven(1.02, 1.16)
    assert meter(Diagnosis("x", "healthy", Comparison(snapshot()), break_even=pays)) == ""
    assert "does not pay" in meter(Diagnosis("x", "healthy", Comparison(snapshot()), break_even=not_so))


def test_what_another_engine_has_to_be_told_stands_in_its_own_spelling():
    rows = (
        Carry("sched.prefix_cache", "Prefix cache", True, False, "--enable-prefix-caching", weight=0.8),
        Carry("sched.max_tokens", "Token budget per step", None, 32768, "", "only this side sets it"),
    )
    was = snapshot("sglang", version="0.5.10", samples=[speed(80.0)])
    c = held(snapshot("vllm", samples=[speed(50.0)]), was)
    d = Diagnosis("gpu7", "regressed", c, carry=rows)
    said = terminal.render(d)
    assert "To carry over from SGLang 0.5.10, the likeliest to cost first" in said
    assert "  Prefix cache: on -> off\n    --enable-prefix-caching\n" in said
    assert "  Token budget per step: not set -> 32768\n    only this side sets it\n" in said
    assert "--enable-prefix-caching" in markdown.render(d)
    assert [x.write for x in as_json.document(d).carry] == ["--enable-prefix-caching", ""]
