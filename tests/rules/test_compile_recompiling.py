"""compile.recompiling: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dataclasses import replace

from tests.rules.build import found, signal, snapshot, steps

JIT = ("jit_compile_during_serving",)


def test_compiling_again_and_again_while_serving_is_named():
    said = replace(
        signal("compile.jit_in_serving", "Triton compile during inference: f. This causes a latency spike", topics=JIT),
        count=12,
    )
    assert found("compile.recompiling", snapshot(signals=[said])).summary == (
        "kernels were compiled 12 times while requests were served"
    )


def test_a_few_shapes_in_the_first_minutes_are_normal():
    said = replace(signal("compile.jit_in_serving", "Triton compile during inference: f", topics=JIT), count=3)
    assert found("compile.recompiling", snapshot(signals=[said])) is None


def test_a_tuned_server_that_did_so_too_is_no_difference():
    said = replace(signal("compile.jit_in_serving", "Triton compile during inference: f", topics=JIT), count=12)
    same = snapshot(signals=[said])
    assert found("compile.recompiling", same, same) is None


def served(*rows):
    """A log after the server was ready: a compile (its line) or a decode interval (line and speed)."""
    ready = signal("engine.ready", "The server is fired up and ready to roll!", "INFO", line=1)
    compiled = [
        signal("compile.jit_in_serving", f"DeepGEMM JIT Compiling for M={n}. Please wait.", "INFO", line=n, topics=JIT)
        for n, speed in rows
        if speed is None
    ]
    intervals = [steps(40, speed, line=n) for n, speed in rows if speed is not None]
    return snapshot("sglang", signals=[ready, *compiled], intervals=intervals)


def test_two_compiles_that_hold_everybody_up_are_enough():
    rows = [
        (8, 1210.0),
        (9, 1198.0),
        (10, 1200.0),
        (11, None),
        (12, 92.0),
        (13, 1190.0),
        (14, 1205.0),
        (15, None),
        (16, 93.0),
        (17, 1201.0),
    ]
    finding = found("compile.recompiling", served(*rows))
    assert finding.summary.endswith("2 times while requests were served; 2 of them held everybody up")
    assert finding.confidence > 0.8


def test_compiles_that_nobody_feels_are_not_named():
    rows = [(10, 1200.0), (11, None), (12, 1195.0), (13, 1190.0), (14, 1205.0), (15, None), (16, 1210.0)]
    assert found("compile.recompiling", served(*rows)) is None


def test_what_a_fresh_server_compiles_once_is_its_warm_up():
    rows = [(10, None), (11, 88.0), (12, None), (13, 402.0), (14, 1290.0), (15, 1330.0), (16, 1334.0)]
    assert found("compile.recompiling", served(*rows)) is None
