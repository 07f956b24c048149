"""kv.prefix_cache_off: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dflash_doctor.model import Setting
from tests.rules.build import found, grown, signal, snapshot, steps

QUERIES, HITS = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
ON = snapshot(settings={"sched.prefix_cache": True})


def test_a_flag_that_switches_it_off_is_named():
    off = Setting("sched.prefix_cache", False, "asked", "--no-enable-prefix-caching")
    finding = found("kv.prefix_cache_off", snapshot(settings={"sched.prefix_cache": off}), ON)
    assert finding.summary == "prefix caching is off; the tuned server had it"
    assert finding.next_steps == ("start without --no-enable-prefix-caching",)


def test_a_cache_that_never_hits_under_a_lot_of_prompts_is_named():
    now = snapshot(
        settings={"sched.prefix_cache": True, "spec.method": "dflash"},
        counters=[grown(QUERIES, 900_000.0), grown(HITS, 0.0)],
    )
    assert found("kv.prefix_cache_off", now).summary == (
        "the prefix cache never hits: 0.0% of 900,000 prompt tokens, with speculation on"
    )


def test_a_cache_that_was_off_when_tuned_is_no_change():
    off = snapshot(settings={"sched.prefix_cache": False})
    assert found("kv.prefix_cache_off", off, off) is None


def test_a_server_that_has_just_started_has_nothing_to_hit():
    now = snapshot(settings={"sched.prefix_cache": True}, counters=[grown(QUERIES, 800.0), grown(HITS, 0.0)])
    assert found("kv.prefix_cache_off", now) is None


def asks(beginning, rate):
    line = signal(
        "api.request_body_logging", f"Received request c-1: prompt: '{beginning} You are a helpful …'", "INFO"
    )
    return snapshot(signals=[line], intervals=[steps(6, 50.0, prefix_hit_rate=rate)])


def test_prompts_that_begin_with_something_else_in_every_request_share_nothing():
    now, was = asks("<|system|>\\ntrace=5f3a now=2026-10-21T10:21:01", 0.006), asks("<|system|>\\n", 0.93)
    finding = found("kv.prefix_cache_off", now, was)
    assert finding.summary.endswith("prompts begin with something else in every request now")
    assert finding.confidence > 0.85
    assert found("measurement.artifact", now, was) is None, "no chance of this run"
    assert found("kv.prefix_cache_off", asks("<|system|>\\n", 0.006), was).confidence < 0.7
