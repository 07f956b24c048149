"""sched.batch_limits: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dataclasses import replace

from dflash_doctor.model import Setting
from tests.rules.build import found, signal, snapshot, speed, steps


def limited(limit, *rows):
    return snapshot(
        settings={"sched.max_seqs": Setting("sched.max_seqs", limit, "asked", "--max-num-seqs")}, intervals=list(rows)
    )


def test_a_lower_limit_with_requests_waiting_and_room_in_the_cache_is_named():
    queue = steps(1, 28.0, waiting=3, kv_usage=0.03)
    finding = found("sched.batch_limits", limited(1, queue), limited(16, steps(4, 69.0, waiting=0, kv_usage=0.1)))
    assert finding.summary == "sched.max_seqs: 16 -> 1; 3 wait, 1 run, and the KV cache is 3% full"
    assert finding.next_steps == ("put --max-num-seqs back to 16",)


def test_a_queue_before_a_full_cache_is_the_caches_doing():
    queue = steps(104, 5190.0, waiting=40, kv_usage=0.98)
    assert found("sched.batch_limits", limited(256, queue), limited(256, steps(144, 7000.0, kv_usage=0.4))) is None


def test_a_higher_limit_is_a_trade():
    assert (
        found(
            "sched.batch_limits",
            limited(32, steps(32, 3390.0)),
            limited(16, steps(16, 1945.0, waiting=50, kv_usage=0.05)),
        )
        is None
    )


def queue(running, waiting, n=3):
    return [steps(running, 500.0, waiting=waiting, kv_usage=0.08, line=i) for i in range(n)]


def test_a_queue_beside_free_memory_where_never_one_more_runs_is_a_limit_whatever_it_is_called():
    said = signal("spec.scheduled_tokens_cap", "Overriding max_num_active_seqs from 256 to 32")
    now = snapshot(settings={"sched.max_seqs": 256}, intervals=queue(32, 91), signals=[said])
    was = snapshot(settings={"sched.max_seqs": 256}, intervals=queue(122, 2))
    finding = found("sched.batch_limits", now, was)
    assert "91 wait, 32 run, and the KV cache is 8% full" in finding.summary and finding.confidence > 0.8
    assert found("sched.batch_limits", replace(now, signals=()), replace(now, signals=())) is None


def test_a_queue_that_grew_because_each_request_got_slower_is_no_limit():
    now = snapshot(settings={"sched.max_seqs": 256}, intervals=queue(32, 20), samples=[speed(40.0, metric="tpot_ms")])
    was = snapshot(settings={"sched.max_seqs": 256}, intervals=queue(32, 0), samples=[speed(20.0, metric="tpot_ms")])
    assert found("sched.batch_limits", now, was).confidence < 0.5
