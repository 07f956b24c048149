"""cudagraph.mode_downgraded: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, signal, snapshot


def test_a_weaker_mode_than_tuned_is_named():
    now = snapshot(settings={"cudagraph.mode": "piecewise"})
    was = snapshot(settings={"cudagraph.mode": "full_and_piecewise"})
    assert found("cudagraph.mode_downgraded", now, was).summary == (
        "CUDA graphs run in mode piecewise instead of full_and_piecewise"
    )


def test_the_engines_own_word_names_the_backend():
    said = signal(
        "graph.mode_downgraded", "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with …",
        mode="FULL_AND_PIECEWISE", new="PIECEWISE", backend="FlashInferBackend",
    )  # fmt: skip
    finding = found("cudagraph.mode_downgraded", snapshot(signals=[said]))
    assert "with attention backend FlashInferBackend" in finding.summary


def test_a_stronger_mode_is_no_downgrade():
    now = snapshot(settings={"cudagraph.mode": "full_and_piecewise"})
    assert found("cudagraph.mode_downgraded", now, snapshot(settings={"cudagraph.mode": "piecewise"})) is None


def test_graphs_off_altogether_have_another_name():
    now = snapshot(settings={"cudagraph.mode": "none"})
    assert found("cudagraph.mode_downgraded", now, snapshot(settings={"cudagraph.mode": "full"})) is None
