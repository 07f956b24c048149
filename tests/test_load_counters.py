"""What the servers count around a round, in lines that real servers wrote."""

from __future__ import annotations

import pytest

from dflash_doctor.load import counters
from dflash_doctor.load.counters import grown, present, read, server

# vLLM 0.32.0 with a drafter of seven tokens
VLLM = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="small"}} {running}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="small"}} {waiting}
vllm:num_requests_waiting_by_reason{{engine="0",model_name="small",reason="capacity"}} 5.0
vllm:spec_decode_num_drafts_total{{engine="0",model_name="small"}} {drafts}
vllm:spec_decode_num_drafts_created{{engine="0",model_name="small"}} 1.7960984e+09
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="small"}} {accepted}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="small",position="0"}} {first}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="small",position="1"}} {second}
vllm:prefix_cache_queries_total{{engine="0",model_name="small"}} {queries}
vllm:prefix_cache_hits_total{{engine="0",model_name="small"}} 16.0
vllm:generation_tokens_total{{engine="0",model_name="small"}} {generated}
"""
QUIET = {"running": 0, "waiting": 0, "drafts": 100, "accepted": 50, "first": 30, "second": 20, "queries": 64,
         "generated": 150}  # fmt: skip

# SGLang 0.5.23
SGLANG = """\
sglang:num_running_reqs{{engine_type="unified",model_name="small",moe_ep_rank="0",pp_rank="0",tp_rank="0"}} 2.0
sglang:num_queue_reqs{{engine_type="unified",model_name="small",moe_ep_rank="0",pp_rank="0",tp_rank="0"}} 1.0
sglang:spec_accept_length{{engine_type="unified",model_name="small",moe_ep_rank="0",pp_rank="0",tp_rank="0"}} {length}
sglang:generation_tokens_total{{engine_type="unified",is_streaming="false",model_name="small"}} 8.0
sglang:generation_tokens_total{{engine_type="unified",is_streaming="true",model_name="small"}} {generated}
sglang:num_requests_total{{engine_type="unified",is_streaming="true",model_name="small"}} {ended}
"""
VERIFIED = 'sglang:spec_verify_calls_total{engine_type="unified",model_name="small"} 366.0\n'


def vllm(**changes):
    return read(VLLM.format(**{**QUIET, **changes}))


def test_growth_is_what_a_round_counted():
    found = server(vllm(), vllm(drafts=200, accepted=250, first=120, second=80, queries=128, generated=450), (), 0.0)
    assert (found.drafts, found.accepted, found.accept_length) == (100, 200, 3.0)
    assert found.per_position == [0.9, 0.6]
    assert (found.output_tokens, found.prefix_queries, found.prefix_hits) == (300, 64, 0)
    assert found.prompt_tokens is None and found.preemptions is None, "what is not counted is not known"
    assert found.foreign_running_max == 0


def test_nothing_drafted_is_no_acceptance_length():
    found = server(vllm(), vllm(generated=200), (), None)
    assert found.drafts == 0 and found.accept_length is None and found.per_position == []


def test_a_server_that_was_restarted_in_between_says_nothing_of_the_round():
    found = server(vllm(), vllm(drafts=3, accepted=1, first=1, second=0, generated=4), (), None)
    assert (found.drafts, found.accept_length, found.output_tokens) == (None, None, None)
    assert found.per_position == []


def test_a_server_that_could_not_be_asked_before_says_nothing_of_the_round():
    assert grown({}, vllm(), counters.GENERATED) is None


def test_a_counter_that_was_not_there_yet_had_not_counted():
    after = read('vllm:num_requests_running{engine="0"} 0\nvllm:generation_tokens_total{engine="0"} 40\n')
    assert grown(read('vllm:num_requests_running{engine="0"} 0\n'), after, counters.GENERATED) == 40


def test_waiting_requests_are_with_the_server_too():
    assert present(vllm(running=2, waiting=3)) == 5
    assert present(read("vllm:generation_tokens_total 4\n")) is None


def test_data_parallel_engines_add_up_and_ranks_repeat_each_other():
    engines = "".join(f'vllm:num_requests_running{{engine="{i}",model_name="m"}} 2.0\n' for i in range(4))
    ranks = "".join(f'sglang:num_running_reqs{{dp_rank="{d}",model_name="m",tp_rank="{t}"}} 3.0\n'
                    f'sglang:spec_accept_length{{dp_rank="{d}",model_name="m",tp_rank="{t}"}} {2 + 2 * d}\n'
                    for d in range(2) for t in range(4))  # fmt: skip
    assert present(read(engines)) == 8
    assert present(read(ranks)) == 6
    assert server(read(ranks), read(ranks), (), None).accept_length == 3, "lengths are not added up"


def test_sglang_counts_verify_steps():
    before = read(SGLANG.format(length=0.0, generated=0, ended=0))
    after = read(SGLANG.format(length=4.2967, generated=1568, ended=32) + VERIFIED)
    found = server(before, after, (), None)
    assert found.drafts == 366 and found.accept_length == pytest.approx((1568 - 32) / 366)
    assert present(after) == 3


def test_an_older_sglang_shows_its_last_interval_and_the_looks_are_averaged():
    before, after = (read(SGLANG.format(length=length, generated=5, ended=1)) for length in (9.0, 3.0))
    looks = [read(SGLANG.format(length=length, generated=5, ended=1)) for length in (0.0, 2.5, 3.5)]
    assert server(before, after, looks, None).accept_length == pytest.approx(3.0)
    assert server(before, before | {("sglang:spec_accept_length", ""): 0.0}, (), None).accept_length is None


@pytest.mark.parametrize(
    "text",
    ["", "\x00\xff\n", "<html>no</html>", "vllm:num_requests_running", "vllm:num_requests_running{ 4",
     "vllm:num_requests_running{} NaN\nvllm:num_requests_running{} x\nvllm:num_requests_waiting +Inf"],
)  # fmt: skip
def test_odd_lines_are_passed_over(text):
    assert read(text) == {}
    assert server(read(text), read(text), (), None).output_tokens is None


def test_names_may_hold_anything():
    assert present(read('vllm:num_requests_running{model_name="a} 7 {b=\\"c"} 1 1700000000\n')) == 1


def test_the_servers_own_clock_is_the_mean_of_what_its_histograms_took_in():
    text = 'vllm:{n}_seconds_sum{{engine="0"}} {s}\nvllm:{n}_seconds_count{{engine="0"}} {c}\n'
    first, whole = "time_to_first_token", "e2e_request_latency"
    before = read(text.format(n=first, s=1.0, c=10) + text.format(n=whole, s=20.0, c=10))
    after = read(text.format(n=first, s=1.5, c=15) + text.format(n=whole, s=20.0, c=10))
    found = server(before, after, (), 0)
    assert found.ttft_ms == pytest.approx(100) and found.e2e_ms is None, "nothing came in"
