"""cudagraph.batch_not_covered: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot, steps

SIZES = {"cudagraph.sizes": (1, 2, 4, 8), "sched.max_seqs": 6}


def test_a_limit_between_two_sizes_leaves_the_batches_above_without_a_graph():
    rows = [steps(4, 331.0), steps(4, 330.0), steps(5, 168.0), steps(5, 169.0)]
    finding = found("cudagraph.batch_not_covered", snapshot(settings=SIZES, intervals=rows))
    assert finding.summary == "5 requests run, but graphs cover 4; the engine's speed falls to 51% from 4 to 5 running"


def test_a_verify_batch_counts_its_drafts():
    drafting = {"cudagraph.sizes": (8, 16, 32), "spec.method": "mtp", "spec.depth": 3, "sched.max_seqs": 64}
    rows = [steps(4, 200.0), steps(16, 210.0)]
    finding = found("cudagraph.batch_not_covered", snapshot(settings=drafting, intervals=rows))
    assert "graphs cover 8 (each puts 4 tokens into a verify step)" in finding.summary


def test_decode_lines_tell_from_which_batch_on_there_is_no_graph():
    rows = [steps(8, 900.0, graph=True), steps(48, 5450.0, graph=False)]
    was = snapshot("sglang", intervals=[steps(48, 6140.0, graph=True)])
    finding = found("cudagraph.batch_not_covered", snapshot("sglang", intervals=rows), was)
    assert finding.summary == "from 48 running requests on, decode steps run without a CUDA graph"


def test_a_batch_within_the_sizes_is_covered():
    rows = [steps(2, 160.0), steps(4, 320.0)]
    assert found("cudagraph.batch_not_covered", snapshot(settings=SIZES, intervals=rows)) is None
