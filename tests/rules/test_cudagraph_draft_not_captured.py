"""cudagraph.draft_not_captured: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, signal, snapshot

DRAFTING = {"spec.method": "eagle3", "cudagraph.mode": "full_and_piecewise"}


def test_a_drafter_that_was_compiled_when_tuned_and_is_not_now_is_named():
    compiled = signal("compile.cache", "Using cache directory: …/rank_0_0/eagle_head for vLLM's torch.compile", "INFO")
    finding = found(
        "cudagraph.draft_not_captured", snapshot(settings=DRAFTING), snapshot(settings=DRAFTING, signals=[compiled])
    )
    assert finding.summary.endswith("the tuned server captured it")


def test_the_engines_own_word_is_enough():
    said = signal(
        "graph.drafter", "eagle draft attention (X) does not support full CUDA graphs; running the draft eagerly."
    )
    assert found("cudagraph.draft_not_captured", snapshot(settings=DRAFTING, signals=[said]))


def test_a_drafter_in_piecewise_graphs_on_both_sides_is_normal():
    piecewise = signal("graph.drafter", "Capturing model for drafter (PIECEWISE)...", "INFO")
    same = snapshot(settings=DRAFTING, signals=[piecewise])
    assert found("cudagraph.draft_not_captured", same, same) is None


def test_without_speculation_there_is_no_drafter():
    said = signal("graph.drafter", "running the draft eagerly")
    assert found("cudagraph.draft_not_captured", snapshot(settings={"spec.method": "none"}, signals=[said])) is None
