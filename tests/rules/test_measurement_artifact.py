"""measurement.artifact: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, grown, snapshot, speed, steps


def test_more_requests_running_than_were_sent_are_others():
    now = snapshot(samples=[speed(41.0, 1)], intervals=[steps(4, 212.0), steps(3, 198.0), steps(4, 205.0)])
    was = snapshot(samples=[speed(167.0, 1)], intervals=[steps(1, 240.0)])
    finding = found("measurement.artifact", now, was)
    assert finding.summary == (
        "no regression is shown: the client sent 1 at once, but 4 requests run: others share this server"
    )


def test_prompts_that_were_cached_on_one_side_only_are_an_artefact():
    def cell(queries, hits, tok_s):
        counters = [grown("vllm:prefix_cache_queries_total", queries), grown("vllm:prefix_cache_hits_total", hits)]
        return snapshot(samples=[speed(tok_s)], counters=counters, settings={"sched.prefix_cache": True})

    finding = found("measurement.artifact", cell(128_000.0, 0.0, 57.0), cell(256_000.0, 207_000.0, 132.0))
    assert "were in the prefix cache (81% hits), these were cold (0%)" in finding.summary


def test_a_client_that_the_servers_own_counters_contradict_is_an_artefact():
    def side(client, server):
        return snapshot(samples=[speed(client, metric="tpot_ms"), speed(server, metric="tpot_ms", workload=None)])

    assert "the server's own counters 1.00x" in found("measurement.artifact", side(45.5, 6.5), side(6.5, 6.5)).summary


def test_a_server_that_counts_itself_slower_is_slower():
    def side(client, server):
        return snapshot(samples=[speed(client, metric="tpot_ms"), speed(server, metric="tpot_ms", workload=None)])

    assert found("measurement.artifact", side(45.5, 45.0), side(6.5, 6.5)) is None
