"""cudagraph.capture_failed: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, signal, snapshot

BAR = signal("graph.capture_progress", "Capturing CUDA graphs (decode, FULL): 42%", "INFO", line=80)


def test_out_of_memory_while_capturing_is_named_and_eager_mode_is_not_the_cure():
    oom = signal("err.oom", "torch.OutOfMemoryError: CUDA out of memory.", "ERROR", line=90)
    now = snapshot(settings={"mem.fraction": 0.98}, signals=[BAR, oom], served=False)
    finding = found("cudagraph.capture_failed", now)
    assert finding.summary == (
        "CUDA graph capture failed for want of memory at a memory fraction of 0.98; the server does not start"
    )
    assert "do not switch graphs off" in finding.next_steps[1]


def test_out_of_memory_before_capture_is_another_fault():
    oom = signal("err.oom", "torch.OutOfMemoryError: CUDA out of memory.", "ERROR", line=20)
    assert found("cudagraph.capture_failed", snapshot(signals=[oom, BAR], served=False)) is None


def test_out_of_memory_hours_after_capture_is_another_fault():
    done = signal("graph.capture_done", "Graph capturing finished in 9 secs", "INFO", line=85)
    oom = signal("err.oom", "torch.OutOfMemoryError: CUDA out of memory.", "ERROR", line=900)
    assert found("cudagraph.capture_failed", snapshot(signals=[BAR, done, oom], served=True)) is None
