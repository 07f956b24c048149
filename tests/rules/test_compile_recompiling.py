"""compile.recompiling: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dataclasses import replace

from tests.rules.build import found, signal, snapshot

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
