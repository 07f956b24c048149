"""kv.prefix_cache_off: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dflash_doctor.model import Setting
from tests.rules.build import found, grown, snapshot

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
