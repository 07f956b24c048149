"""cudagraph.disabled: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dflash_doctor.model import Setting
from tests.rules.build import found, signal, snapshot, steps

TUNED = snapshot(settings={"cudagraph.mode": "full_and_piecewise"})


def test_eager_mode_is_named_with_the_flag_that_did_it():
    off = Setting("cudagraph.mode", "none", "effective", "--enforce-eager")
    said = signal("graph.eager", "Enforce eager set, disabling torch.compile and CUDAGraphs.")
    finding = found("cudagraph.disabled", snapshot(settings={"cudagraph.mode": off}, signals=[said]), TUNED)
    assert finding.summary == "CUDA graphs are off (--enforce-eager); the tuned server had them"
    assert finding.next_steps[0] == "start the server without --enforce-eager"


def test_decode_lines_without_a_graph_are_enough():
    now = snapshot("sglang", intervals=[steps(graph=False, kind="decode"), steps(graph=False, kind="decode")])
    was = snapshot("sglang", intervals=[steps(graph=True, kind="decode")])
    assert found("cudagraph.disabled", now, was)


def test_a_tuned_server_that_ran_eager_too_lost_nothing():
    eager = snapshot(settings={"cudagraph.mode": "none"})
    assert found("cudagraph.disabled", eager, eager) is None


def test_prefill_lines_without_a_graph_are_normal():
    now = snapshot("sglang", intervals=[steps(graph=False, kind="prefill"), steps(graph=True, kind="decode")])
    assert found("cudagraph.disabled", now) is None


def test_there_are_no_graphs_to_lose_on_a_cpu():
    cpu = signal("kv.size", "CPU KV cache size: 29,056 tokens", "INFO")
    now = snapshot(settings={"cudagraph.mode": "none"}, signals=[cpu])
    assert found("cudagraph.disabled", now, TUNED) is None
