"""/metrics of both engines: growth between looks, what it says of drafting, caching and waiting, and settings in it."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.model import Gap, Unreadable
from dflash_doctor.parsers import prom
from tests.reading import facts_or_reason

SAMPLES = Path(__file__).parent / "samples" / "metrics"
VLLM = (SAMPLES / "vllm-0.32-dflash.prom").read_text(encoding="utf-8")
SGLANG = (SAMPLES / "sglang-0.5.23-standalone.prom").read_text(encoding="utf-8")


def parse(text):
    return prom.parse(text, "metrics.prom")


def scrapes(*values, name="vllm:num_preemptions_total", labels='engine="0"', every=40):
    """Looks at one series, so many seconds apart."""
    return "".join(
        f"# scrape 2026-08-28T02:{58 + i * every // 60:02d}:{i * every % 60:02d}Z\n{name}{{{labels}}} {v}\n"
        for i, v in enumerate(values)
    )


def value(facts, metric, **conditions):
    (found,) = [s for s in facts.samples if s.metric == metric and conditions.items() <= s.conditions.items()]
    return found.value


# -- counters ---------------------------------------------------------------------------------------------------------


def test_a_counter_becomes_its_growth_with_the_time_it_took():
    (counter,) = parse(scrapes(100, 137)).counters
    assert (counter.name, counter.value, counter.kind, counter.seconds) == (
        "vllm:num_preemptions_total",
        37,
        "growth",
        40,
    )
    assert counter.labels == {"engine": "0"}


def test_a_server_that_was_restarted_counts_from_zero():
    first, second = parse(scrapes(100, 137, 5)).counters
    assert (first.value, first.stretch, second.value, second.stretch) == (37, 0, 5, 1)


def test_a_counter_that_appears_later_began_at_zero():
    text = scrapes(1, name="vllm:num_requests_running") + scrapes(0, 9)[scrapes(0).__len__() :]
    assert [c.value for c in parse(text).counters if c.kind == "growth"] == [9]


def test_a_gauge_keeps_its_last_value():
    (counter,) = parse(scrapes(8, 5, name="vllm:num_requests_running")).counters
    assert (counter.value, counter.kind) == (5, "gauge")


def test_a_lone_scrape_gives_totals_since_the_start():
    facts = parse(scrapes(100))
    assert [(c.value, c.kind, c.seconds) for c in facts.counters] == [(100, "total", None)]
    assert facts.samples[0].conditions["from"] == "server counters since start"


def test_engines_of_one_server_are_added_up():
    text = "".join(
        f"# scrape 2026-08-28T02:5{i}:00Z\n" + "".join(
            f'vllm:spec_decode_num_{n}_total{{engine="{e}"}} {v * i}\n'
            for e in "01" for n, v in (("drafts", 100), ("draft_tokens", 700), ("accepted_tokens", 100 + 200 * int(e)))
        ) for i in (1, 2)
    )  # fmt: skip
    assert value(parse(text), "accept_length") == pytest.approx(1 + 400 / 200)


def test_ranks_of_one_group_say_the_same_and_count_once():
    text = "".join(
        f'sglang:realtime_tokens_total{{mode="{mode}",tp_rank="{rank}"}} {v}\n'
        for rank in "0123" for mode, v in (("prefill_compute", 300), ("prefill_cache", 100))
    )  # fmt: skip
    facts = parse(text)
    assert len(facts.counters) == 2
    assert value(facts, "prefix_hit_rate") == 0.25


def test_data_parallel_ranks_are_not_one_group():
    text = "".join(f'sglang:num_running_reqs{{dp_rank="{d}",tp_rank="{d * 4}"}} 3\n' for d in (0, 1))
    assert value(parse(text), "running") == 6


def test_files_put_one_after_another_are_two_looks():
    text = "vllm:num_preemptions_total 10\n"
    facts = parse(text + text.replace("10", "17"))
    assert [(c.value, c.kind, c.seconds) for c in facts.counters] == [(7, "growth", None)]


def test_looks_closer_than_the_engines_own_interval_are_one_witness():
    many = scrapes(*range(0, 60, 3), every=2)
    facts = parse(many)
    assert len(facts.counters) == 19, "every look is kept as a counter"
    grown = [s.value for s in facts.samples if s.metric == "preemptions"]
    assert sum(grown) == 57
    assert len(grown) == 3


# -- speculation ------------------------------------------------------------------------------------------------------


def test_acceptance_of_vllm_counts_the_bonus_token():
    facts = parse(VLLM)
    assert value(facts, "accept_length") == pytest.approx(1 + 1365 / 243)
    assert value(facts, "accept_rate", depth=7.0) == pytest.approx(1365 / 1701)
    assert value(facts, "accept_first") == pytest.approx(195 / 243, abs=1e-4)


def test_the_curve_by_position_comes_along():
    accept = next(s for s in parse(VLLM).samples if s.metric == "accept_length")
    assert len(accept.conditions["per_position"]) == 7
    assert accept.evidence.text.startswith("vllm:spec_decode_num_accepted_tokens_total")


def test_acceptance_of_sglang_comes_from_its_verify_steps():
    facts = parse(SGLANG)
    # 1568 tokens of 18 requests, each first one from its prefill, in 363 steps
    assert value(facts, "accept_length", **{"from": "server counters"}) == pytest.approx(1550 / 363)
    assert value(facts, "accept_rate") == pytest.approx((1550 / 363 - 1) / 4)


def test_an_older_sglang_has_only_its_last_interval():
    text = "sglang:spec_accept_length 3.4\nsglang:num_running_reqs 2\nsglang:gen_throughput 140.5\n"
    accept, speed = (s for s in parse(text).samples if s.metric in ("accept_length", "output_tok_s"))
    assert (accept.value, accept.conditions["from"]) == (3.4, "server last interval")
    assert (speed.value, speed.concurrency) == (140.5, 2)


def test_a_gauge_that_nobody_set_is_not_an_acceptance_of_zero():
    facts = parse("sglang:spec_accept_length 0.0\nsglang:num_running_reqs 1\nsglang:gen_throughput 9\n")
    assert not [s for s in facts.samples if s.metric == "accept_length"]


def test_no_draft_between_two_looks_is_no_acceptance_at_all():
    same = "vllm:spec_decode_num_drafts_total 9\nvllm:spec_decode_num_accepted_tokens_total 3\n"
    text = f"# scrape 2026-08-28T02:51:00Z\n{same}# scrape 2026-08-28T02:52:00Z\n{same}"
    assert not [s for s in parse(text).samples if s.metric.startswith("accept")]


# -- cache, times, settings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelled", ["prefix_cache", "gpu_prefix_cache"])
def test_hits_are_read_under_old_and_new_names(spelled):
    text = "".join(
        f"# scrape 2026-08-28T02:5{i}:00Z\nvllm:{spelled}_queries_total {100 * i}\nvllm:{spelled}_hits_total {60 * i}\n"
        for i in (1, 2)
    )
    assert value(parse(text), "prefix_hit_rate", asked=100) == pytest.approx(0.6)


def test_nothing_asked_of_the_cache_is_not_a_rate_of_zero():
    text = scrapes(7, 7, name="vllm:prefix_cache_queries_total") + "vllm:prefix_cache_hits_total 0\n"
    assert not [s for s in parse(text).samples if s.metric == "prefix_hit_rate"]


def test_times_are_means_of_the_servers_histograms_in_milliseconds():
    ttft = next(s for s in parse(VLLM).samples if s.metric == "ttft_ms")
    assert ttft.conditions["from"] == "server histogram"
    assert ttft.conditions["count"] == 18
    assert 0 < ttft.conditions["p50"] <= ttft.conditions["p90"] <= ttft.conditions["p99"]


def test_gaps_between_tokens_of_two_kinds_are_not_one_number():
    plain = "\n".join(x for x in VLLM.splitlines() if "spec_decode" not in x)
    kinds = {
        s.conditions["definition"] for t in (VLLM, plain, SGLANG) for s in parse(t).samples if s.metric == "itl_ms"
    }
    assert len(kinds) == 3


def test_a_quantile_beyond_the_last_bucket_is_not_made_up():
    text = (
        'vllm:time_to_first_token_seconds_bucket{le="0.1"} 1\nvllm:time_to_first_token_seconds_bucket{le="+Inf"} 10\n'
        "vllm:time_to_first_token_seconds_sum 90\nvllm:time_to_first_token_seconds_count 10\n"
    )
    (ttft,) = parse(text).samples
    assert ttft.value == 9000
    assert "p50" not in ttft.conditions


def test_settings_hide_in_the_labels_of_vllm():
    said = {s.key: (s.value, s.said) for s in parse(VLLM).settings}
    assert said["kv.page_size"] == (128, "effective")
    assert said["mem.fraction"] == (0.92, "effective")
    assert said["sched.prefix_cache"] == (True, "effective")
    assert value(parse(VLLM), "kv_tokens") == 29056


def test_settings_hide_in_the_gauges_of_sglang():
    facts = parse(SGLANG)
    assert {s.key: s.value for s in facts.settings} == {"kv.page_size": 1, "mem.max_context": 2048, "spec.depth": 4}
    assert value(facts, "kv_tokens") == 32768


def test_an_older_vllm_tells_its_room_in_blocks():
    facts = parse('vllm:cache_config_info{block_size="16",num_gpu_blocks="2000",gpu_memory_utilization="0.9"} 1\n')
    assert value(facts, "kv_tokens") == 32000


def test_a_room_that_was_not_yet_known_is_not_zero():
    facts = parse('vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1\n')
    assert not [s for s in facts.samples if s.metric == "kv_tokens"]


def test_requests_that_ended_prove_that_it_serves_and_none_prove_nothing():
    assert parse(VLLM).served is True
    assert parse('vllm:request_success_total{finished_reason="abort"} 3\n').served is None


def test_the_server_says_when_it_started():
    assert parse(VLLM).host == {"process_start": 1796099836.11}


# -- what is missing --------------------------------------------------------------------------------------------------


def test_bad_lines_are_one_gap_and_the_others_are_read():
    facts = parse('vllm:num_requests_running{engine="0 3\nhello world\n' + scrapes(1, 3))
    assert facts.counters[0].value == 2
    (gap,) = facts.gaps
    assert gap.what == "metrics.prom"
    assert gap.why.startswith("2 lines could not be read, the first is line 1")


def test_a_whole_exposition_without_a_known_name_is_a_gap_not_a_zero():
    text = "\n".join(x for x in VLLM.splitlines() if "num_preemptions" not in x)
    facts = parse(text)
    assert facts.gaps == (Gap("metrics.prom: preemptions", "this vllm does not expose it under any name we know"),)
    assert not [s for s in facts.samples if s.metric == "preemptions"]


def test_a_whole_exposition_has_no_gap():
    assert parse(VLLM).gaps == ()
    assert parse(SGLANG).gaps == ()


def test_a_restart_between_two_looks_is_said():
    facts = parse(scrapes(1, 2, name="process_start_time_seconds") + "vllm:num_requests_running 1\n")
    assert "restarted" in facts.gaps[0].why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("# HELP nothing\n", "--enable-metrics"),
        ("go_goroutines 12\nllamacpp:prompt_tokens_total 3\n", "begin with go, llamacpp"),
        ("<html><body>404 Not Found</body></html>", "404 Not Found"),
        ('{"detail":"Not Found"}', "Not Found"),
    ],
)
def test_what_is_no_engines_metrics_is_said_in_words(text, why):
    with pytest.raises(Unreadable, match=why):
        parse(text)


# -- anything ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        'vllm:x{a="' + "\\" * 400_000,
        "vllm:x{" + 'a="b",' * 100_000 + "} 1",
        "vllm:" + "a" * 500_000 + " 1",
        "# TYPE " + "a" * 500_000,
        "vllm:x " + "1" * 400_000,
    ],
)
def test_hostile_lines_are_read_in_linear_time(line):
    begun = time.monotonic()
    facts_or_reason(prom.parse, line, "metrics.prom")
    facts_or_reason(prom.parse, "\n".join([line[:2000] + str(i) for i in range(300)]), "metrics.prom")
    assert time.monotonic() - begun < 3


PIECES = [
    "vllm:",
    "sglang:",
    "x",
    '{a="',
    '"}',
    " 1",
    "\n",
    "# scrape ",
    "# TYPE ",
    "_total",
    "_bucket",
    'le="',
    "NaN",
    "-1",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=40).map("".join), st.integers(0, 2000))
def test_any_text_gives_facts_or_a_reason(text, cut):
    facts_or_reason(prom.parse, text, "metrics.prom")
    facts_or_reason(prom.parse, SGLANG[-cut:] + text, "metrics.prom")
