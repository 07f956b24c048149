"""kv.preemption: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dataclasses import replace

from tests.rules.build import found, grown, signal, snapshot, steps

NAME = "vllm:num_preemptions_total"


def test_preemptions_with_a_full_cache_are_named():
    now = snapshot(counters=[grown(NAME, 37.0)], intervals=[steps(6, 60.0, kv_usage=0.998, waiting=2)])
    finding = found("kv.preemption", now)
    assert finding.summary == "37 preemptions with the KV cache 100% full: requests are thrown out and computed again"
    assert finding.severity == "critical"


def test_retractions_in_the_log_count_too():
    said = replace(signal("sched.retract", "KV cache pool is full. Retract requests. #retracted_reqs: 4"), count=9)
    assert "9 preemptions" in found("kv.preemption", snapshot("sglang", signals=[said])).summary


def test_a_full_cache_without_preemption_is_good_use_of_memory():
    assert (
        found("kv.preemption", snapshot(intervals=[steps(8, 240.0, kv_usage=0.96)], counters=[grown(NAME, 0.0)]))
        is None
    )


def test_a_counter_since_the_start_says_nothing_about_now():
    assert found("kv.preemption", snapshot(counters=[grown(NAME, 5000.0, "total")])) is None
