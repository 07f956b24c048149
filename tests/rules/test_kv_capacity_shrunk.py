"""kv.capacity_shrunk: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, signal, snapshot, speed, steps


def room(tokens, *rows, **more):
    return snapshot(
        samples=[speed(tokens, metric="kv_tokens", workload=None, concurrency=None)], intervals=list(rows), **more
    )


def test_a_third_of_the_room_with_requests_waiting_is_named():
    full = steps(104, 5190.0, kv_usage=0.98, waiting=40)
    finding = found("kv.capacity_shrunk", room(245_840, full), room(769_888))
    assert finding.summary == "KV cache room 245,840 tokens, 769,888 when tuned (32%); it is full and requests wait"
    assert finding.confidence > 0.8


def test_a_smaller_cache_that_never_fills_is_no_reason():
    assert found("kv.capacity_shrunk", room(245_840, steps(1, 50.0, kv_usage=0.02)), room(769_888)).confidence < 0.5


def test_a_few_per_cent_are_profiling():
    assert found("kv.capacity_shrunk", room(98_000), room(100_000)) is None


def test_a_start_that_has_no_room_for_one_request_is_named():
    said = signal(
        "err.oom",
        "ValueError: KV cache memory is not enough: 5.12 GiB KV cache is needed, larger than the available 0.94 GiB",
        "ERROR",
    )
    finding = found("kv.capacity_shrunk", snapshot(signals=[said], served=False))
    assert finding.effects == ("server.failing",)
