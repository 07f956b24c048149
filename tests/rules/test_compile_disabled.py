"""compile.disabled: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot


def test_compilation_that_was_on_when_tuned_is_named():
    now = snapshot(settings={"compile.mode": "none"})
    was = snapshot(settings={"compile.mode": "vllm_compile"})
    assert found("compile.disabled", now, was).summary == "torch.compile is off; the tuned server had it"


def test_eager_mode_makes_graphs_the_larger_half():
    now = snapshot(settings={"compile.mode": "none", "cudagraph.mode": "none"})
    was = snapshot(settings={"compile.mode": "vllm_compile", "cudagraph.mode": "full"})
    assert found("compile.disabled", now, was).confidence < 0.5


def test_a_server_that_never_compiled_lost_nothing():
    same = snapshot("sglang", settings={"compile.mode": "none"})
    assert found("compile.disabled", same, same) is None
