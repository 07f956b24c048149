"""SGLang's log: real starts, batch lines of several ages, and what is no engine of ours."""

from __future__ import annotations

import pytest

from tests.logtext import ids, log, one, read, settings, sglang_line, values

# as 0.5.3 and 0.5.23 print them
DECODE = (
    "Decode batch. #running-req: 1, #token: {}, token usage: 0.00, cuda graph: True, gen throughput (token/s): {}, "
    "#queue-req: 0, "
)
PREFILL = (
    "Prefill batch. #new-seq: 1, #new-token: 18, #cached-token: 184, token usage: 0.00, #running-req: 0, "
    "#queue-req: 0, "
)
DRAFTED = (
    "Decode batch, #running-req: 1, #token: 10072, token usage: 0.06, accept len: 2.73, accept rate: 0.43, cuda graph: "
    "True, gen throughput (token/s): 40.80, #queue-req: 0"
)
CHUNK = (
    "Prefill batch, #new-seq: 1, #new-token: 2048, #cached-token: 0, token usage: 0.02, #running-req: 0, "
    "#queue-req: 0, #pending-token: 0, cuda graph: True, input throughput (token/s): {}"
)


def test_a_start_with_a_draft_model_tells_how_it_runs():
    facts = read(log("sglang0523_spec_standalone_good_k4"))
    assert (facts.engine, facts.version, facts.served) == ("sglang", None, True)
    told = settings(facts)
    assert told["model.path"] == "/srv/models/small/target"
    assert (told["spec.method"], told["spec.depth"], told["spec.topk"]) == ("draft_model", 4, 1)
    assert told["attention.backend"] == "torch_native"
    assert told["cudagraph.mode"] == "none"
    assert told["sched.async"] is False
    assert told["sched.max_seqs"] == 48
    assert told["model.architecture"] == "Qwen3ForCausalLM"
    assert values(facts, "kv_tokens") == [32768], "the drafter's pool is not a second cache"


def test_the_first_batch_line_after_the_start_averages_over_the_start():
    facts = read(log("sglang0523_spec_standalone_good_k4"))
    decode = [(i.generation_tok_s, i.accept_length, i.steady) for i in facts.intervals if i.kind == "decode"]
    assert decode == [
        (7.81, 4.32, False), (23.38, 4.42, True), (22.87, 4.47, True), (22.83, 4.3, True), (46.04, 4.3, False),
    ]  # fmt: skip
    assert values(facts, "output_tok_s") == [23.38, 22.87, 22.83]
    # (4.42 - 1) of the four tokens drafted
    assert values(facts, "accept_rate")[1] == pytest.approx(0.855)
    assert values(facts, "step_time_ms")[0] == pytest.approx(1000 * 4.42 / 23.38, rel=1e-4)


def test_batch_lines_without_acceptance_show_that_nothing_is_drafted():
    facts = read(log("sglang0523_base"))
    assert settings(facts)["spec.method"] == "none"
    assert values(facts, "output_tok_s", 4.0) == [37.57, 33.39]
    assert values(facts, "prefix_hit_rate") == [0.6619]


def test_a_refused_drafter_ends_the_start():
    facts = read(log("sglang0523_fail_spec_dflash_random"))
    assert facts.served is False
    (error,) = [s for s in facts.signals if s.level == "ERROR"]
    assert error.evidence.text == (
        "ValueError: DFLASH speculative decoding is not supported by CpuSRTPlatform on device 'cpu'."
    )
    assert "graph.disabled" in ids(facts)


def test_a_wanted_shutdown_is_no_failure():
    facts = read(log("sglang0523_base"))
    assert facts.served is True
    assert ids(facts, "ERROR", "CRITICAL") == []


def test_a_pause_before_a_request_is_not_its_speed():
    rows = [
        ("03:02:11", PREFILL), ("03:02:12", DECODE.format(137, 1.06)), ("03:02:13", DECODE.format(177, 84.20)),
        ("03:02:24", PREFILL), ("03:02:25", DECODE.format(234, 3.17)), ("03:02:26", DECODE.format(274, 81.97)),
    ]  # fmt: skip
    facts = read("".join(sglang_line(body, f"2025-09-03 {at}", "TP0") for at, body in rows))
    assert values(facts, "output_tok_s") == [84.2, 81.97]


def test_decode_lines_that_share_their_time_with_long_prefills_are_mixed():
    text = (
        sglang_line(CHUNK.format(280.5), "2026-10-02 20:10:12", "TP0")
        + sglang_line(CHUNK.format(3291.5), "2026-10-02 20:10:13", "TP0")
        + sglang_line(DRAFTED, "2026-10-02 20:10:16", "TP0")
    )
    facts = read(text)
    assert [i.steady for i in facts.intervals] == [False, True, False]
    assert values(facts, "prefill_tok_s") == [3291.5], "the first of a stretch holds the pause before it"
    assert values(facts, "step_time_ms") == []


def test_eight_ranks_that_say_the_same_are_one_fact():
    line = "sglang is using nccl==2.28.9"
    facts = read("".join(sglang_line(line, rank=f"TP{i}") for i in range(8)))
    said = one(facts, "comm.nccl_version")
    assert (said.count, said.ranks) == (8, tuple(f"TP{i}" for i in range(8)))
    assert settings(facts)["comm.nccl_version"] == "2.28.9"


def test_ranks_that_disagree_stay_apart():
    line = "Load weight begin. avail mem={} GB"
    held = "Memory pool end. avail mem={} GB"
    size = "KV Cache is allocated. #tokens: {}, K size: 4.90 GB, V size: 4.90 GB"
    facts = read(
        "".join(sglang_line(line.format(100 + i), rank=f"TP{i}") for i in range(2))
        + "".join(sglang_line(held.format(61 if i else 138), rank=f"TP{i}") for i in range(2))
        + "".join(sglang_line(size.format(100 if i else 50), rank=f"TP{i}") for i in range(4))
    )
    assert one(facts, "mem.weights").ranks == ("TP0", "TP1"), "free memory always differs a bit"
    pools = [s.ranks for s in facts.signals if s.id == "kv.size"]
    assert pools == [("TP0",), ("TP1",), ("TP0",), ("TP1", "TP2", "TP3")]


def test_data_parallel_ranks_are_engines():
    line = DECODE.replace("#running-req: 1,", "#running-req: 96,")
    rows = [sglang_line(line.format(1, 3500 + i), f"2025-12-23 05:20:0{i}", f"DP{i % 2} TP0") for i in range(4)]
    facts = read("".join(rows))
    assert [i.engine for i in facts.intervals] == ["0", "1", "0", "1"]
    assert all(i.steady and i.graph for i in facts.intervals)


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("Attention backend not set. Use flashinfer backend by default.", "attention.backend", "flashinfer"),
        ("Overriding draft attention backend to fa3.", "attention.draft_backend", "fa3"),
        ("Capture cuda graph bs [1, 2, 4, 8, 16]", "cudagraph.sizes", (1, 2, 4, 8, 16)),
        ("Cuda graph is disabled because of using torch native attention backend", "cudagraph.mode", "none"),
        ("Overlap scheduler is disabled because of using eagle speculative decoding.", "sched.async", False),
        ("Beta spec v2 is enabled for eagle/eagle3 speculative decoding and overlap schedule is turned on.",
         "sched.async", True),
        ("Using KV cache dtype: torch.float8_e4m3fn", "kv.dtype", "fp8_e4m3"),
        ("Casting torch.bfloat16 to torch.float16.", "model.dtype", "float16"),
        ("Disable DFLASH draft cuda graph because dp attention is enabled (draft runs eager).",
         "cudagraph.draft_mode", "none"),
        ("Radix cache is disabled because --enable-mis is set.", "sched.prefix_cache", False),
        ("max_total_num_tokens=742118, chunked_prefill_size=-1, max_prefill_tokens=16384, max_running_requests=256, "
         "context_len=32768, available_gpu_mem=20.88 GB", "sched.chunked_prefill", False),
    ],
)  # fmt: skip
def test_single_lines_state_settings(line, key, value):
    assert settings(read(sglang_line(line)))[key] == value


def test_a_share_of_the_requests_is_not_the_limit():
    # eight attention data-parallel ranks take six of the 48 requests each
    facts = read(
        sglang_line("server_args=ServerArgs(model_path='m', dp_size=8, max_running_requests=48)")
        + sglang_line(
            "max_total_num_tokens=612000, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=6, "
            "context_len=131072, available_gpu_mem=12.40 GB",
            rank="DP0 TP0",
        )
    )
    assert settings(facts)["sched.max_seqs"] == 48


def test_dropped_weights_are_one_warning():
    names = ("model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.up_proj.weight", "lm_head.weight")
    facts = read("".join(sglang_line(f"Parameter {n} not found in params_dict, skip loading") for n in names))
    assert one(facts, "spec.weights_skipped").count == 3
    assert one(facts, "spec.weights_skipped").level == "WARNING"


def test_own_logging_set_ups_are_read_by_their_words():
    facts = read(
        "2025-12-04 20:34:01 INFO 151972 [engine.py:128] server_args=ServerArgs(model_path='/m/target', tp_size=2)\n"
        "2025-12-04 20:35:53 INFO 151972 [scheduler_metrics_mixin.py:287] Decode batch. #running-req: 48, "
        "#token: 3894, token usage: 0.00, accept len: 1.00, accept rate: 0.11, cuda graph: False, "
        "gen throughput (token/s): 5452.63, #queue-req: 0, \n"
    )
    assert facts.engine == "sglang"
    assert settings(facts)["parallel.tp"] == 2
    assert [(i.generation_tok_s, i.graph) for i in facts.intervals] == [(5452.63, False)]


# -- other engines ----------------------------------------------------------------------------------------------------


def test_llama_cpp_requests_are_samples_beside_their_prompt_size():
    slot = "slot print_timing: id  0 | task 402 | "
    facts = read(
        "llm_load_print_meta: n_swa            = 0\nllm_load_print_meta: n_swa            = 4096\n"
        + slot + "prompt eval time =   14231.20 ms / 21840 tokens (    0.65 ms per token,  1534.66 tokens per second)\n"
        + slot + "       eval time =   11294.10 ms /   600 tokens (   18.82 ms per token,    53.13 tokens per second)\n"
        + slot + "draft acceptance rate = 0.31000 (  310 accepted /  1000 generated)\n"
    )  # fmt: skip
    assert (facts.engine, facts.served) == ("llama.cpp", True)
    assert [s.fields["window"] for s in facts.signals if s.id == "model.window"] == ["0", "4096"]
    assert values(facts, "output_tok_s") == [53.1251]
    assert values(facts, "accept_rate") == [0.31]
    assert {s.conditions["input_tokens"] for s in facts.samples} == {16384}


def test_a_log_of_no_known_engine_keeps_its_alarms():
    facts = read("2026-01-01 10:00:00,123 - my.server - ERROR - cannot open /data/model-7.bin\nINFO: fine\n")
    assert facts.engine is None
    assert [(s.id, s.level, s.template) for s in facts.signals] == [("unknown", "ERROR", "cannot open <path>")]
