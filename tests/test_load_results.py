"""Numbers of load: noted by a person, written by our own rounds or by other tools, printed on a console."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.formats.load import Client, Drift, LoadFile, Request, Round, Server, Warmup
from dflash_doctor.model import Gap, Unreadable
from dflash_doctor.parsers import load_json, load_txt, load_yaml
from dflash_doctor.parsers.spellings import amount, metric_of
from tests.reading import facts_or_reason


def noted(text):
    return load_yaml.parse(text, "load.yaml")


def results(*docs):
    text = json.dumps(docs[0]) if len(docs) == 1 else "\n".join(json.dumps(d) for d in docs)
    return load_json.parse(text, "load.json")


def printed(text):
    return load_txt.parse(text, "load.txt")


def values(facts, metric, **conditions):
    return [s.value for s in facts.samples if s.metric == metric and conditions.items() <= s.conditions.items()]


# -- noted by a person ------------------------------------------------------------------------------------------------


def test_each_number_of_a_row_is_a_sample_under_the_rows_conditions():
    speed, first = noted(
        "- {workload: chat, concurrency: 2, output_tokens: 96, output_tok_s: 30.4, ttft_ms: 417}"
    ).samples
    assert (speed.metric, speed.value, speed.workload, speed.concurrency) == ("output_tok_s", 30.4, "chat", 2.0)
    assert (first.metric, first.value, first.conditions) == ("ttft_ms", 417, {"output_tokens": 96})


def test_a_row_is_quoted_as_it_was_written():
    found = noted("# tuned\n- {workload: chat, output_tok_s: 1}\n- workload: code\n  output_tok_s: 2\n").samples
    assert [(s.evidence.line, s.evidence.text) for s in found] == [
        (2, "{workload: chat, output_tok_s: 1}"),
        (3, "workload: code output_tok_s: 2"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "- {workload: chat, concurrency: 1, output_tok_s: 73.5}",
        "workload: chat\nconcurrency: 1\noutput_tok_s: 73.5",
        "concurrency: 1\nrows: [{workload: chat, output_tok_s: 73.5}]",
        "chat: {concurrency: 1, output_tok_s: 73.5}",
        "- {Task: chat, Batch size: 1, tok/s: '73.5 tok/s'}",
    ],
)
def test_people_wrap_their_rows_as_they_like(text):
    (sample,) = noted(text).samples
    assert (sample.workload, sample.concurrency, sample.metric, sample.value) == ("chat", 1.0, "output_tok_s", 73.5)


def test_lists_of_values_are_several_runs():
    assert values(noted("- {workload: chat, output_tok_s: [41, 42.5, 40]}"), "output_tok_s") == [41, 42.5, 40]


def test_lists_beside_a_list_of_concurrencies_belong_to_them():
    found = noted("- {workload: mt-bench, concurrency: [1, 2, 4], output_tok_s: [222.77, 413.02, 739.8]}").samples
    assert [(s.concurrency, s.value) for s in found] == [(1, 222.77), (2, 413.02), (4, 739.8)]


def test_boots_and_runs_are_kept():
    sample = noted("- {workload: chat, boot: 2, run: 3, output_tok_s: 464.1}").samples[0]
    assert (sample.boot, sample.round) == ("2", 3)


def test_a_row_without_a_number_is_a_gap():
    facts = noted("- {workload: long prompts, concurrency: 100}\n- {workload: chat, output_tok_s: 3}")
    assert facts.gaps == (Gap("load.yaml, line 1", "this row holds no number that we compare"),)


def test_a_word_where_a_number_should_be_is_a_gap():
    facts = noted("- {workload: chat, output_tok_s: fast, ttft_ms: 3}")
    assert facts.gaps == (Gap("load.yaml, line 1", "output_tok_s is no number: fast"),)


@pytest.mark.parametrize("text", ["[]", "hello", "3", "- 1\n- 2", "a: [", "rows: []", "&a [*a]"])
def test_what_holds_no_row_is_refused_in_words(text):
    with pytest.raises(Unreadable):
        noted(text)


@pytest.mark.parametrize(
    ("metric", "written", "value", "beside"),
    [
        ("output_tok_s", "73.5 tok/s", 73.5, {}),
        ("output_tok_s", "73,5", 73.5, {}),
        ("kv_tokens", "1,270,042", 1270042, {}),
        ("kv_tokens", "557 734", 557734, {}),
        ("kv_tokens", "1.27M", 1270000, {}),
        ("output_tok_s", "35-107", 71, {"low": 35, "high": 107}),
        ("output_tok_s", "~45", 45, {"about": "~"}),
        ("output_tok_s", "41.2 ± 0.8", 41.2, {"spread": 0.8}),
        ("ttft_ms", "1.2 s", 1200, {}),
        ("ttft_ms", "350ms", 350, {}),
        ("accept_rate", "85 %", 0.85, {}),
        ("accept_rate", 85, 0.85, {}),
        ("accept_rate", 0.85, 0.85, {}),
    ],
)
def test_amounts_are_read_as_people_write_them(metric, written, value, beside):
    found = amount(written, metric)
    assert (found.value, found.beside) == (pytest.approx(value), beside)


@pytest.mark.parametrize("written", ["fast", "", True, None, float("nan"), float("inf"), "1e999", [1], "12 monkeys 3"])
def test_what_is_no_amount_is_none(written):
    assert amount(written, "output_tok_s") is None


@pytest.mark.parametrize(
    ("name", "metric", "scale", "statistic"),
    [
        ("TTFT (ms)", "ttft_ms", 1, ""),
        ("mean_ttft_ms", "ttft_ms", 1, ""),
        ("median ttft (ms)", "ttft_ms", 1, "median"),
        ("p99_tpot_ms", "tpot_ms", 1, "p99"),
        ("e2e_s", "e2e_ms", 1000, ""),
        ("Throughput (tok/s)", "output_tok_s", 1, ""),
        ("acc_length", "accept_length", 1, ""),
    ],
)
def test_other_spellings_are_translated(name, metric, scale, statistic):
    found = metric_of(name)
    assert (found.metric, found.scale, found.statistic) == (metric, scale, statistic)


@pytest.mark.parametrize("name", ["latency", "std_ttft_ms", "max_tokens", "input_throughput", "comment"])
def test_a_name_that_could_mean_anything_is_no_metric(name):
    assert metric_of(name) is None


def test_a_median_is_not_held_against_a_mean():
    assert noted("- {workload: chat, median_ttft_ms: 3}").samples[0].conditions == {"definition": "median"}


# -- our own rounds ---------------------------------------------------------------------------------------------------


def rounds(**more):
    request = {"status": "ok", "input_tokens": 20, "output_tokens": 97, "chunks": 16, "start_ms": 0.0, "ttft_ms": 180.0,
               "tpot_ms": 10.0, "e2e_ms": 1140.0, "chunk_gap_ms": 60.0}  # fmt: skip
    one = Round(
        workload="code", version=1, concurrency=1, max_tokens=96, wall_ms=2000.0,
        requests=[Request(prompt="code-01", **request), Request(prompt="code-02", **request),
                  Request(prompt="code-03", status="failed", error="timeout", start_ms=0.0)],
        server=Server(drafts=32, accepted=51, accept_length=2.6, per_position=[0.9, 0.7], prefix_hits=0,
                      prefix_queries=40, preemptions=0),
    )  # fmt: skip
    head = {"client": Client(version="0.1.0"), "started_at": "2026-05-06T10:20:00Z", "api": "/v1/chat/completions",
            "preset": "quick", "rounds": [one]}  # fmt: skip
    return results(json.loads(LoadFile(**(head | more)).model_dump_json(by_alias=True)))


def test_each_request_is_named_by_its_prompt_so_that_it_can_be_paired():
    facts = rounds()
    each = {(s.metric, s.prompt): s.value for s in facts.samples if s.prompt == "code-01"}
    assert each["output_tok_s", "code-01"] == 100.0
    assert each["ttft_ms", "code-01"] == 180.0
    assert each["step_time_ms", "code-01"] == 60.0
    assert each["tokens_per_chunk", "code-01"] == pytest.approx(96 / 15), "the first is the prefill's"


def test_a_round_has_its_own_speed_and_the_servers_counters():
    whole = {s.metric: s.value for s in rounds().samples if s.prompt is None}
    assert whole["output_tok_s"] == pytest.approx(2 * 97 / 2.0)
    assert whole["accept_length"] == 2.6
    assert whole["accept_first"] == 0.9
    assert whole["accept_rate"] == pytest.approx(0.8)
    assert whole["prefix_hit_rate"] == 0.0


def test_a_round_whose_requests_were_broken_off_has_no_speed_of_its_own():
    request = {"output_tokens": 97, "chunks": 16, "ttft_ms": 180.0, "tpot_ms": 10.0, "e2e_ms": 1140.0}
    one = Round(
        workload="code", version=1, concurrency=1, max_tokens=96, wall_ms=2000.0,
        requests=[Request(prompt="code-01", status="ok", start_ms=0.0, **request),
                  Request(prompt="code-02", status="cancelled", error="the time was up", start_ms=1140.0)],
    )  # fmt: skip
    facts = rounds(rounds=[one])
    assert not [s for s in facts.samples if s.prompt is None], "its tokens are not known, its time is counted"
    assert {s.prompt for s in facts.samples} == {"code-01"}


def test_the_step_time_is_not_told_from_chunks_of_many_requests():
    many = Round(workload="code", version=1, concurrency=4, max_tokens=96, wall_ms=10.0,
                 requests=[Request(prompt="a", status="ok", start_ms=0, chunk_gap_ms=60.0)])  # fmt: skip
    assert not values(rounds(rounds=[many]), "step_time_ms")


def test_chunks_that_came_in_bunches_give_no_step_time():
    asked = {"status": "ok", "start_ms": 0, "output_tokens": 9, "chunks": 9, "chunk_gap_ms": 60.0}
    one = Round(workload="code", version=1, concurrency=1, max_tokens=96, wall_ms=10.0,
                requests=[Request(prompt="a", bunched=0.3, **asked),
                          Request(prompt="b", bunched=0.05, **asked)])  # fmt: skip
    facts = rounds(rounds=[one])
    assert [s.prompt for s in facts.samples if s.metric == "step_time_ms"] == ["b"]
    (gap,) = facts.gaps
    assert gap.what == "load.json: step time of code at 1" and gap.why.startswith(
        "1 of 2 answers came in bunches of chunks"
    )


def test_failed_requests_are_left_out_and_said():
    facts = rounds()
    assert not [s for s in facts.samples if s.prompt == "code-03"]
    assert Gap("load.json: code at 1", "1 of 3 requests did not end well: timeout") in facts.gaps


def test_a_load_cut_short_or_never_settled_is_said():
    facts = rounds(partial=True, notes=["stopped by Ctrl-C"], warmup=Warmup(requests=8, settled=False))
    assert "cut short (stopped by Ctrl-C)" in facts.gaps[0].why
    assert "had not settled after 8" in facts.gaps[1].why


def clocks(server, **request):
    asked = {"prompt": "a", "status": "ok", "start_ms": 0, "output_tokens": 91, "chunks": 31, "ttft_ms": 100.0,
             "tpot_ms": 10.0, "e2e_ms": 1000.0, "chunk_gap_ms": 30.0}  # fmt: skip
    one = Round(workload="code", version=1, concurrency=1, max_tokens=91, wall_ms=1000.0,
                requests=[Request(**(asked | request))], server=Server(foreign_running_max=0, **server))  # fmt: skip
    facts = rounds(rounds=[one])
    return {s.metric for s in facts.samples}, [g.why for g in facts.gaps]


def test_a_cold_prompt_tells_how_fast_the_server_reads_and_the_same_again_does_not():
    asked = {"status": "ok", "start_ms": 0, "input_tokens": 20000, "output_tokens": 8, "chunks": 8}
    one = Round(workload="cold", version=1, concurrency=1, max_tokens=96, wall_ms=9000.0,
                requests=[Request(prompt="cold-1", ttft_ms=5000.0, **asked),
                          Request(prompt="cold-1-again", ttft_ms=250.0, **asked)])  # fmt: skip
    facts = rounds(rounds=[one])
    assert [(s.prompt, s.value) for s in facts.samples if s.metric == "prefill_tok_s"] == [("cold-1", 4000.0)]
    assert [s.value for s in facts.samples if s.metric == "ttft_ms"] == [5000.0, 250.0]


AGREED = {"drafts": 30, "accept_length": 3.0, "per_position": [0.9, 0.7, 0.4], "output_tokens": 91, "ttft_ms": 95.0,
          "e2e_ms": 990.0}  # fmt: skip


def test_clocks_that_agree_raise_no_doubt():
    metrics, gaps = clocks(AGREED)
    assert gaps == [] and {"step_time_ms", "accept_length", "tokens_per_chunk"} <= metrics


def test_the_last_step_of_an_answer_may_be_cut():
    short = {"output_tokens": 12, "chunks": 4}
    _, gaps = clocks(AGREED | {"accept_length": 4.9, "per_position": [0.8] * 7, "output_tokens": 12}, **short)
    assert gaps == []


@pytest.mark.parametrize(
    ("odd", "left_out", "why"),
    [
        ({"accept_length": 1.5}, "step_time_ms", "a chunk carries 3.00 tokens and a step of the engine gives 1.50"),
        (
            {"accept_length": 4.3},
            "accept_length",
            "the counters give 4.30 tokens a step where 4 are the most that can be",
        ),
        ({"output_tokens": 150}, None, "the answers say 91 tokens (usage), the server's counters 150"),
        ({"ttft_ms": 20.0}, None, "first tokens took 100 ms here and 20 ms by the server's own clock: the rest passes"),
        ({"e2e_ms": 1500.0}, None, "whole answers took 1000 ms here and 1500 ms by the server's own clock: its clock"),
    ],
)
def test_clocks_that_disagree_are_told_of_and_what_cannot_be_true_is_left_out(odd, left_out, why):
    metrics, gaps = clocks(AGREED | odd)
    assert why in gaps[0] and left_out not in metrics and "output_tok_s" in metrics


def test_a_server_that_others_used_meanwhile_is_not_held_against_our_tokens():
    one = Round(workload="code", version=1, concurrency=1, max_tokens=91, wall_ms=1000.0,
                requests=[Request(prompt="a", status="ok", start_ms=0, output_tokens=91, chunks=31)],
                server=Server(foreign_running_max=2, output_tokens=900))  # fmt: skip
    assert rounds(rounds=[one]).gaps == ()


def test_a_client_that_was_busy_itself_is_told_of():
    busy = "the client itself was busy (80% of a core)"
    assert Gap("load.json: client", busy) in rounds(client=Client(version="1", doubt=busy)).gaps


def test_prompts_that_were_run_again_count_and_their_round_does_not():
    head = {"workload": "code", "version": 1, "concurrency": 1, "max_tokens": 96, "wall_ms": 1000.0}
    once = Round(requests=[Request(prompt="a", status="ok", start_ms=0, tpot_ms=10.0, output_tokens=96)], **head)
    again = Round(
        requests=[Request(prompt="a", status="ok", start_ms=0, tpot_ms=12.5, output_tokens=96)], again=True, **head
    )
    facts = rounds(rounds=[once, again], drift=Drift(prompts=4, change=0.05, error=0.004, found=True))
    assert [(s.prompt, s.value) for s in facts.samples if s.metric == "output_tok_s"] == [
        ("a", 100.0), (None, 96.0), ("a", 80.0),
    ]  # fmt: skip
    assert facts.gaps[0].why.startswith(
        "the step time moved by +5.0% from the beginning to the end (4 prompts run twice)"
    )


def test_a_broken_file_of_ours_says_where():
    with pytest.raises(Unreadable, match=r"of the form dflash-doctor/load/1: rounds"):
        results({"schema": "dflash-doctor/load/1", "client": {"version": "1"}, "started_at": "", "api": "",
                 "preset": "", "rounds": [{"workload": 3}]})  # fmt: skip


# -- other tools' files -----------------------------------------------------------------------------------------------

VLLM_BENCH = {
    "date": "20260828-025900", "endpoint_type": "openai-chat", "backend": "vllm", "label": None,
    "model_id": "Qwen/Qwen3-8B", "tokenizer_id": "Qwen/Qwen3-8B",
    "num_prompts": 32, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 8,
    "duration": 224.17, "completed": 30, "failed": 2, "total_input_tokens": 480000, "total_output_tokens": 12000,
    "request_throughput": 0.14, "request_goodput": None, "output_throughput": 57.1, "total_token_throughput": 2341.1,
    "mean_ttft_ms": 20092.4, "median_ttft_ms": 20410.72, "std_ttft_ms": 3.0, "p99_ttft_ms": 39870.15,
    "mean_tpot_ms": 90.03, "median_tpot_ms": 90.11,
    "spec_decode_acceptance_rate": 38.0, "spec_decode_acceptance_length": 3.4,
    "spec_decode_per_position_acceptance_rates": [0.8, 0.5], "input_lens": [15000, 15000], "output_lens": [401, 401],
    "ttfts": [0.5, 0.75], "itls": [[0.1] * 100, [0.2] * 100], "errors": ["", ""],
}  # fmt: skip


def test_vllm_bench_keeps_its_own_definitions():
    facts = results(VLLM_BENCH)
    assert values(facts, "output_tok_s", definition="vllm bench serve") == [57.1]
    assert values(facts, "ttft_ms", definition="vllm bench serve, mean", p99=39870.15) == [20092.4]
    assert values(facts, "ttft_ms", definition="vllm bench serve, median") == [20410.72]
    assert values(facts, "accept_length") == [3.4]
    assert values(facts, "accept_rate") == [pytest.approx(0.38)]
    assert values(facts, "accept_first") == [0.8]


def test_its_single_requests_are_paired_by_their_place_in_the_data_set():
    each = [s for s in results(VLLM_BENCH).samples if s.metric == "tpot_ms" and s.prompt]
    assert [(s.prompt, s.value) for s in each] == [
        ("benchmark #0", pytest.approx(25.0)),
        ("benchmark #1", pytest.approx(50.0)),
    ]


def test_an_unlimited_rate_is_a_condition_not_a_number():
    sample = results(VLLM_BENCH).samples[0]
    assert (sample.concurrency, sample.conditions["request_rate"]) == (8.0, "inf")


def test_requests_that_failed_are_said():
    assert results(VLLM_BENCH).gaps == (
        Gap("load.json: benchmark", "2 of 32 requests failed; the numbers are of the rest"),
    )


SGLANG_BENCH = {
    "tag": None, "backend": "sglang", "dataset_name": "random", "request_rate": 16.0, "max_concurrency": 4,
    "random_input_len": 1024, "random_output_len": 256, "duration": 20.0, "completed": 64, "total_input_tokens": 65536,
    "total_output_tokens": 16384, "request_throughput": 3.2, "input_throughput": 3276.8, "output_throughput": 819.2,
    "total_throughput": 4096.0, "mean_e2e_latency_ms": 1200.0, "median_e2e_latency_ms": 1190.0, "mean_ttft_ms": 60.0,
    "mean_tpot_ms": 4.5, "mean_itl_ms": 4.4, "concurrency": 3.9, "accept_length": 3.01,
    "server_info": {"model_path": "/models/Qwen3-8B", "tp_size": 2, "attention_backend": "fa3", "api_key": "sk-secret",
                    "version": "0.5.23", "internal_states": [{"avg_spec_accept_length": 3.01}]},
}  # fmt: skip


def test_sglang_bench_brings_its_servers_configuration():
    facts = results(SGLANG_BENCH)
    said = {s.key: (s.value, s.said) for s in facts.settings}
    assert (facts.engine, facts.version) == ("sglang", "0.5.23")
    assert said["parallel.tp"] == (2, "effective")
    assert said["attention.backend"] == ("fa3", "effective")
    assert "sk-secret" not in str(facts)


def test_sglangs_acceptance_counts_since_the_servers_start_and_says_so():
    assert values(results(SGLANG_BENCH), "accept_length", definition="sglang.bench_serving, since server start") == [
        3.01
    ]


def test_lengths_that_were_asked_for_are_conditions():
    sample = results(SGLANG_BENCH).samples[0]
    assert (sample.workload, sample.conditions["input_tokens"], sample.conditions["output_tokens"]) == (
        "random",
        1024,
        256,
    )


def test_input_tokens_over_the_whole_run_are_no_prefill_speed():
    assert values(results(SGLANG_BENCH), "prefill_tok_s") == []


def test_results_one_a_line_are_all_read_and_a_cut_last_line_is_left_out():
    text = json.dumps(SGLANG_BENCH) + "\n" + json.dumps(SGLANG_BENCH | {"max_concurrency": 8}) + '\n{"tag": nu'
    facts = load_json.parse(text, "load.json")
    assert {s.concurrency for s in facts.samples} == {4.0, 8.0}


def test_one_batch_is_prefill_and_decode_apart():
    facts = results({"run_name": "default", "batch_size": 4, "input_len": 1024, "output_len": 16, "latency": 0.8,
                     "input_throughput": 32000.0, "output_throughput": 140.0, "overall_throughput": 5200.0,
                     "last_ttft": 0.13, "last_gen_throughput": 139.0, "acc_length": -1.0})  # fmt: skip
    assert values(facts, "prefill_tok_s", input_tokens=1024) == [32000.0]
    assert values(facts, "e2e_ms") == [800.0]
    assert values(facts, "accept_length") == []


GUIDELLM = {
    "metadata": {"version": 2, "guidellm_version": "0.8.1"},
    "benchmarks": [{
        "type_": "generative_benchmark",
        "config": {"strategy": {"type_": "concurrent", "streams": 4}, "backend": {"model": "m"}},
        "metrics": {
            "request_totals": {"successful": 96, "errored": 4, "incomplete": 0, "total": 100},
            "requests_per_second": {"successful": {"mean": 1.7}},
            "request_latency": {"successful": {"mean": 2.1, "median": 2.0}},
            "output_tokens_per_second": {"successful": {"mean": 161.0, "median": 150.0}},
            "time_to_first_token_ms": {"successful": {"mean": 417.0, "median": 402.1, "percentiles": {"p99": 800.0}}},
            "time_per_output_token_ms": {"successful": {"mean": 22.0}},
            "inter_token_latency_ms": {"successful": {"mean": 18.5}},
        },
    }],
}  # fmt: skip


def test_guidellm_means_other_things_by_the_same_words():
    facts = results(GUIDELLM)
    assert values(facts, "tpot_ms", definition="guidellm, mean") == [18.5], (
        "its time per output token includes the prefill"
    )
    assert values(facts, "e2e_ms", definition="guidellm, mean") == [2100.0], "its latency is in seconds"
    assert values(facts, "output_tok_s") == [161.0]
    assert facts.samples[0].concurrency == 4
    assert facts.gaps[0].why.startswith("4 of 100 requests failed")


AIPERF = {
    "schema_version": "1.4", "aiperf_version": "0.13.0",
    "input_config": {"endpoint": {"streaming": True}, "phases": [{"name": "warmup", "concurrency": 1},
                                                               {"name": "profiling", "concurrency": 8}]},
    "request_throughput": {"unit": "requests/sec", "avg": 3.1},
    "time_to_first_token": {"unit": "ms", "avg": 417.0, "p50": 402.1, "p99": 800.0},
    "inter_token_latency": {"unit": "s", "avg": 0.0185, "p50": 0.018},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 161.0},
    "output_token_throughput_per_user": {"unit": "tokens/sec/user", "avg": 54.0, "p50": 54.5},
    "error_request_count": {"unit": "requests", "avg": 1}, "request_count": {"unit": "requests", "avg": 99},
}  # fmt: skip


def test_aiperf_is_read_in_its_units():
    facts = results(AIPERF)
    assert values(facts, "tpot_ms", definition="aiperf, mean") == [18.5]
    assert values(facts, "decode_tok_s", definition="aiperf, median") == [54.5]
    assert facts.samples[0].concurrency == 8, "of the phase that was measured, not of its warm-up"
    assert facts.gaps[0].why.startswith("1 of 100")


def test_genai_bench_and_the_offline_benchmarks_are_read():
    scenario = {"scenario": "D(100,100)", "num_concurrency": 4, "mean_output_throughput_tokens_per_s": 160.0,
                "stats": {"ttft": {"mean": 0.4, "p50": 0.39}}}  # fmt: skip
    assert values(results({"aggregated_metrics": scenario}), "ttft_ms", definition="genai-bench, mean") == [400.0]
    offline = {
        "elapsed_time": 10.0,
        "num_requests": 8,
        "total_num_tokens": 800,
        "requests_per_second": 0.8,
        "tokens_per_second": 80.0,
    }
    assert values(results(offline), "total_tok_s") == [80.0]
    assert values(results({"avg_latency": 1.5, "latencies": [1.5], "percentiles": {}}), "e2e_ms") == [1500.0]


def test_rows_in_json_read_as_in_yaml():
    (sample,) = results({"rows": [{"workload": "chat", "concurrency": 1, "output_tok_s": 73.5}]}).samples
    assert (sample.workload, sample.value) == ("chat", 73.5)


@pytest.mark.parametrize("text", ["{}", "[]", "3", '{"a": 1}', '[{"pytorch": {"metric": {}}}]', "", "{"])
def test_results_of_no_known_tool_are_refused_in_words(text):
    with pytest.raises(Unreadable):
        load_json.parse(text, "load.json")


# -- on the console ---------------------------------------------------------------------------------------------------

SERVING = """\
Namespace(subparser='bench', backend='vllm', dataset_name='random', seed=42, num_prompts=32, random_input_len=16000, \
random_output_len=400, max_concurrency=8, request_rate=inf, model='Qwen/Qwen3-30B-A3B')
100%|████████████| 32/32 [03:44<00:00,  7.01s/it]
============ Serving Benchmark Result ============
Successful requests:                     31
Failed requests:                         1
Maximum request concurrency:             8
Benchmark duration (s):                  224.17
Total input tokens:                      496000
Total generated tokens:                  12400
Request throughput (req/s):              0.14
Output token throughput (tok/s):         57.10
Peak output token throughput (tok/s):    120.00
Total token throughput (tok/s):          2341.10
---------------Time to First Token----------------
Mean TTFT (ms):                          20092.40
Median TTFT (ms):                        20410.72
P99 TTFT (ms):                           39870.15
---------------Speculative Decoding---------------
Acceptance rate (%):                     38.12
Acceptance length:                       3.41
Per-position acceptance (%):
  Position 0:                            81.20
  Position 1:                            52.10
==================================================
"""


def test_a_printed_table_says_what_the_file_would():
    facts = printed(SERVING)
    assert values(facts, "output_tok_s", definition="vllm bench serve", input_tokens=16000) == [57.1]
    assert values(facts, "ttft_ms", definition="vllm bench serve, mean", p99=39870.15) == [20092.4]
    assert values(facts, "accept_rate") == [pytest.approx(0.3812)]
    assert values(facts, "accept_first") == [pytest.approx(0.812)]
    assert {(s.workload, s.concurrency) for s in facts.samples} == {("random", 8.0)}
    assert facts.gaps == (Gap("load.txt: random", "1 of 32 requests failed; the numbers are of the rest"),)


def test_a_number_on_a_console_is_quoted_with_its_line():
    speed = next(s for s in printed(SERVING).samples if s.metric == "output_tok_s")
    assert (speed.evidence.line, speed.evidence.text) == (11, "Output token throughput (tok/s):         57.10")


def test_the_print_and_the_file_of_one_tool_can_be_held_against_each_other():
    file = {(s.metric, s.conditions["definition"]) for s in results(VLLM_BENCH).samples if s.prompt is None}
    console = {(s.metric, s.conditions["definition"]) for s in printed(SERVING).samples}
    assert console <= file


def test_sglangs_table_is_sglangs():
    text = (
        "============ Serving Benchmark Result ============\nBackend:                                 sglang\n"
        "Traffic request rate:                    10.0\nMax reqeuest concurrency:                not set\n"
        "Successful requests:                     50\nOutput token throughput (tok/s):         981.31\n"
        "Accept length:                           3.05\nMean E2E Latency (ms):                   500.0\n"
    )
    facts = printed(text)
    assert values(facts, "output_tok_s", definition="sglang.bench_serving", request_rate=10) == [981.31]
    assert facts.samples[0].concurrency is None


def test_tables_after_one_another_are_several_results():
    facts = printed(
        SERVING + SERVING.replace("Maximum request concurrency:             8", "Maximum request concurrency:     16")
    )
    assert {s.concurrency for s in facts.samples} == {8.0, 16.0}


@pytest.mark.parametrize(
    ("line", "metric", "value"),
    [
        ("Throughput: 17.67 requests/s, 9048.03 tokens/s", "total_tok_s", 9048.03),
        ("Throughput: 17.67 requests/s, 9048.03 total tokens/s, 4321.00 output tokens/s", "output_tok_s", 4321.0),
        ("Avg latency: 1.8243 seconds", "e2e_ms", 1824.3),
        ("Prefill. latency: 0.03148 s, throughput:   32526.81 token/s", "prefill_tok_s", 32526.81),
        ("Decode.  median latency: 0.00902 s, median throughput:    110.84 token/s", "step_time_ms", 9.02),
        ("acc_length=2.23", "accept_length", 2.23),
        ("speed=116.60 token/s", "output_tok_s", 116.6),
        ("|    4.391    |  512   |   2.230    |     116.60      |", "output_tok_s", 116.6),
        (
            "prompt eval time =  100.0 ms /   20 tokens (    5.00 ms per token,   200.00 tokens per second)",
            "prefill_tok_s",
            200.0,
        ),
        (
            "       eval time = 5218.35 ms /  400 tokens (   13.05 ms per token,    76.65 tokens per second)",
            "output_tok_s",
            76.65,
        ),
        ("chat with one request gave 73.5 tok/s", "output_tok_s", 73.5),
        ("prefill 2154 tok/s", "prefill_tok_s", 2154.0),
    ],
)
def test_lines_of_other_tools_are_read(line, metric, value):
    assert values(printed(f"warming up\n{line}\n"), metric) == [pytest.approx(value)]


def test_noted_rates_go_under_the_words_before_them():
    found = printed("cold: chat 41.2 tok/s, code 40.0 tok/s\n").samples
    assert [(s.workload, s.value) for s in found] == [("cold: chat", 41.2), ("code", 40.0)]


def test_dflash_served_is_all_tokens_over_the_time():
    facts = printed(
        "Backend: sglang\nDataset: math500\nNum prompts: 128\nConcurrency: 1\nLatency: 401.2s\nOutput tokens: 65152\n"
        "Throughput: 162.40 tok/s\nAccept length: 5.91\n"
    )
    assert values(facts, "output_tok_s", definition="dflash benchmark, all tokens over time") == [162.4]
    assert values(facts, "accept_length") == [5.91]
    assert (facts.engine, facts.samples[0].workload, facts.samples[0].concurrency) == ("sglang", "math500", 1.0)


def test_dflash_local_runs_both_ways_and_they_are_kept_apart():
    facts = printed(
        "$ dflash benchmark transformers --dataset gsm8k --num-prompts 16\nBaseline throughput: 28.31 tok/s\n"
        "DFlash throughput:  73.45 tok/s\nDecoding speedup: 2.59\nAverage Acceptance length: 2.30\n"
        "Acceptance length histogram: ['0.0%', '30.0%', '20.0%', '40.0%', '10.0%']\n"
    )
    assert values(facts, "output_tok_s", definition="dflash benchmark, with drafting") == [73.45]
    assert values(facts, "output_tok_s", definition="dflash benchmark, without drafting") == [28.31]
    assert values(facts, "accept_first") == [pytest.approx(0.7)]
    assert (facts.engine, facts.samples[0].workload) == ("transformers", "gsm8k")


@pytest.mark.parametrize("text", ["", "hello\n", "0 requests\n", "\x00\x01" * 300])
def test_a_console_without_a_result_is_refused_in_words(text):
    with pytest.raises(Unreadable):
        printed(text)


# -- anything ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    ["=" * 400_000 + " Benchmark Result", "1,1" * 200_000 + " tok/s", "a=" * 200_000 + "Namespace(",
     "Throughput: " * 40_000,
     "--a b" * 90_000 + " bench", " tok/s 1" * 60_000, "DFlash throughput: [" * 30_000, "[" * 100_000, "{a: " * 900],
)  # fmt: skip
def test_hostile_lines_are_read_in_linear_time(line):
    begun = time.monotonic()
    many = "\n".join([line[:3900]] * 200)
    for text in (line, many, "=== Serving Benchmark Result ===\n" + many):
        facts_or_reason(load_txt.parse, text, "load.txt")
        facts_or_reason(load_json.parse, text, "load.json")
    facts_or_reason(load_yaml.parse, line[:20_000], "load.yaml")
    assert time.monotonic() - begun < 5


NAMES = [
    *VLLM_BENCH,
    *SGLANG_BENCH,
    *AIPERF,
    *GUIDELLM,
    "schema",
    "rows",
    "avg",
    "mean",
    "metrics",
    "stats",
    "aggregated_metrics",
]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just("dflash-doctor/load/1"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=25,
)


@given(anything)
def test_any_json_gives_facts_or_a_reason(value):
    facts_or_reason(load_json.parse, json.dumps(value), "load.json")
    facts_or_reason(load_yaml.parse, json.dumps(value), "load.yaml")


@given(st.text(), st.integers(0, 1100))
def test_any_text_gives_facts_or_a_reason(text, cut):
    for parse, name in ((load_json.parse, "load.json"), (load_yaml.parse, "load.yaml"), (load_txt.parse, "load.txt")):
        facts_or_reason(parse, text, name)
    facts_or_reason(load_txt.parse, SERVING[:cut] + text, "load.txt")
