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


def logs(client, engine, kept=4.5, **more):
    rows = [steps(1, engine, accept_length=kept, line=n, kind="decode") for n in (10, 20)]
    samples = [speed(client, workload="explain"), *(speed(v, metric=k, workload="explain") for k, v in more.items())]
    return snapshot("sglang", settings={"spec.method": "dspark", "spec.depth": 7}, samples=samples, intervals=rows)


def test_a_client_that_counts_chunks_is_told_by_the_engines_own_lines():
    finding = found("measurement.artifact", logs(41.0, 184.0), logs(184.1, 184.3))
    assert "the client tells 41 tok/s, the engine's own lines 184 as before (184.3)" in finding.summary
    assert finding.summary.endswith("that is low by the 4.50 tokens of a step: it counts chunks")


def test_an_engine_that_got_slower_itself_is_no_artifact():
    assert found("measurement.artifact", logs(41.0, 45.0), logs(184.1, 184.3)) is None


def test_a_rate_that_fell_by_a_later_first_token_is_no_artifact():
    now, was = logs(40.0, 184.0, ttft_ms=9000.0, tpot_ms=5.4), logs(184.1, 184.3, ttft_ms=300.0, tpot_ms=5.4)
    assert found("measurement.artifact", now, was) is None


def test_requests_that_wait_are_slow_for_the_client_alone_and_that_is_no_artifact():
    def queued(tok_s, first, server):
        client = [speed(tok_s, 2), speed(first, 2, metric="ttft_ms"), speed(12.0, 2, metric="tpot_ms")]
        return snapshot(samples=[*client, speed(server, 2, metric="tpot_ms", workload=None)])

    assert found("measurement.artifact", queued(40.0, 900.0, 12.1), queued(78.0, 120.0, 12.0)) is None
