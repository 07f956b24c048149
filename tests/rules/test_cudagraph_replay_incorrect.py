"""cudagraph.replay_incorrect: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot, speed, steps


def drafts(length, mode):
    return snapshot(
        settings={"spec.method": "eagle", "cudagraph.mode": mode}, samples=[speed(length, metric="accept_length")]
    )


def test_drafts_dead_with_graphs_and_alive_without_are_named():
    finding = found("cudagraph.replay_incorrect", drafts(1.0, "full"), drafts(2.4, "none"))
    assert finding.summary.startswith("since the graph mode changed (cudagraph.mode: none -> full) drafts keep 1.00")
    assert "spec.acceptance_collapse" in finding.effects


def test_drafts_that_were_dead_in_eager_mode_too_are_wired_wrongly():
    assert found("cudagraph.replay_incorrect", drafts(1.0, "full"), drafts(1.0, "none")) is None


def test_a_drafter_that_works_in_graphs_is_fine():
    assert found("cudagraph.replay_incorrect", drafts(2.4, "full"), drafts(2.4, "none")) is None


def test_a_stronger_mode_that_lowers_acceptance_is_named_too():
    assert found("cudagraph.replay_incorrect", drafts(2.6, "full"), drafts(3.6, "piecewise"))


def test_acceptance_that_fell_with_a_new_release_is_not_the_graphs_doing():
    from dataclasses import replace

    now, was = replace(drafts(2.6, "full"), version="0.28.0"), replace(drafts(3.6, "piecewise"), version="0.27.1")
    assert found("cudagraph.replay_incorrect", now, was) is None


def batches(graph=True, **lengths):
    """Decode intervals by running requests (n3=1.0: three requests keep 1.0 tokens)."""
    rows = [steps(int(n[1:]), 50.0, accept_length=a, graph=graph, kind="decode") for n, a in lengths.items()]
    return snapshot("sglang", settings={"spec.method": "eagle", "cudagraph.sizes": (1, 2, 4, 8)}, intervals=rows)


def test_drafts_that_die_in_padded_batches_are_named():
    finding = found("cudagraph.replay_incorrect", batches(n1=2.8, n2=2.8, n3=1.0, n4=2.8, n5=1.01, n8=2.8))
    assert finding.summary == (
        "drafts keep 2.80 tokens in batches of a captured size (1, 2, 4, 8) and 1.00 in padded ones (3, 5)"
    )


def test_padded_batches_whose_drafts_live_are_fine():
    assert found("cudagraph.replay_incorrect", batches(n1=2.8, n2=2.8, n3=2.7, n4=2.8, n5=2.8)) is None
    assert found("cudagraph.replay_incorrect", batches(graph=False, n1=2.8, n2=2.8, n3=1.0, n5=1.0)) is None
