"""cudagraph.replay_incorrect: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot, speed


def drafts(length, mode):
    return snapshot(
        settings={"spec.method": "eagle", "cudagraph.mode": mode}, samples=[speed(length, metric="accept_length")]
    )


def test_drafts_dead_with_graphs_and_alive_without_are_named():
    finding = found("cudagraph.replay_incorrect", drafts(1.0, "full"), drafts(2.4, "none"))
    assert finding.summary.startswith("with CUDA graphs on drafts are never accepted")
    assert "spec.acceptance_collapse" in finding.effects


def test_drafts_that_were_dead_in_eager_mode_too_are_wired_wrongly():
    assert found("cudagraph.replay_incorrect", drafts(1.0, "full"), drafts(1.0, "none")) is None


def test_a_drafter_that_works_in_graphs_is_fine():
    assert found("cudagraph.replay_incorrect", drafts(2.4, "full"), drafts(2.4, "none")) is None
