"""vLLM's log: real starts, steady figures and deaths, and the lines of older versions."""

from __future__ import annotations

import pytest

from tests.logtext import ids, log, one, read, settings, stats, values, vllm_line


def test_a_start_with_a_drafter_tells_how_it_runs():
    facts = read(log("v032_repeat_dflash_copy_k7"))
    assert (facts.engine, facts.version, facts.served) == ("vllm", "0.32.0", True)
    told = settings(facts)
    assert told["model.path"] == "/srv/models/small/target_repeat"
    assert told["model.architecture"] == "Qwen3ForCausalLM", "the drafter's comes second and is not the model's"
    assert told["mem.max_context"] == 2048, "4096 is what the drafter could do"
    assert (told["spec.method"], told["spec.depth"]) == ("dflash", 7)
    assert told["spec.draft_model"] == "/srv/models/small/dflash_copy"
    assert told["cudagraph.mode"] == "none"
    assert told["sched.prefix_cache"] is True
    asked = settings(facts, "asked")
    assert (asked["model.dtype"], asked["cudagraph.mode"]) == ("float32", "none")
    assert values(facts, "kv_tokens") == [29056]


def test_acceptance_of_a_window_is_kept_also_when_its_speed_says_nothing():
    facts = read(log("v032_repeat_dflash_copy_k7"))
    first, last = facts.intervals
    assert (first.generation_tok_s, first.running, first.accept_length) == (62.0, 1.0, 6.30)
    assert (first.accept_rate, first.per_position[0]) == (0.757, 0.757)
    assert (last.running, last.steady) == (0.0, False), "the requests ended within this window"
    assert values(facts, "accept_length") == [6.3, 6.87]
    assert values(facts, "accept_first") == [0.757, 0.838]
    assert values(facts, "output_tok_s") == []


def test_a_drafter_that_is_never_right_accepts_one_token_per_step():
    facts = read(log("v032_repeat_dflash_random_k7"))
    assert set(values(facts, "accept_length")) == {1.0}
    assert values(facts, "output_tok_s", 1.0) == [14.6, 16.4, 13.2, 13.6]
    assert values(facts, "output_tok_s", 4.0) == [27.2, 25.6]
    # one token per step: 1 / 14.6 s
    assert values(facts, "step_time_ms", 1.0)[0] == pytest.approx(68.5, abs=0.1)


def test_a_server_that_dies_at_its_first_request_did_not_serve():
    facts = read(log("v032_fail_drafter_wrong_size"))
    assert facts.served is False
    said = one(facts, "err.drafter_shape")
    assert (said.fields["want"], said.fields["got"]) == ("768", "3072")
    assert said.level == "ERROR" and said.evidence.line == 103 and said.count == 2
    assert "server.shutdown" in ids(facts), "it went down in order, but nobody had asked it to"


def test_a_cache_that_does_not_fit_ends_the_start():
    facts = read(log("v032_fail_kv_too_big"))
    assert facts.served is False
    assert one(facts, "err.oom").fields == {"free": "14.5", "total": "16.46", "want": "64.0"}
    assert not facts.intervals


def test_errors_after_a_wanted_shutdown_are_noise():
    facts = read(log("v0201_base_eager"))
    assert (facts.served, facts.version) == (True, "0.20.1")
    assert ids(facts, "ERROR", "CRITICAL") == []
    late = [s for s in facts.signals if "Found no NVIDIA driver" in s.evidence.text]
    assert [s.level for s in late] == ["INFO"]


def test_the_core_has_the_last_word_about_async_scheduling():
    # the API server says "enabled" before the core finds out that it cannot
    assert settings(read(log("v0201_base_eager")))["sched.async"] is False


def test_no_speculation_is_knowledge():
    assert settings(read(log("v032_prefix_on")))["spec.method"] == "none"


def test_windows_at_the_edge_of_a_load_are_not_steady():
    facts = read(log("v032_tp2"))
    assert [(i.generation_tok_s, i.steady) for i in facts.intervals] == [
        (11.1, False), (16.1, True), (15.0, True), (16.9, True), (16.1, True),
        (37.3, False), (44.3, False), (0.0, False),
    ]  # fmt: skip
    assert settings(facts)["parallel.tp"] == 2
    assert values(facts, "kv_tokens") == [65536]


def test_requests_wait_when_one_sequence_is_allowed():
    facts = read(log("v032_maxseqs1"))
    assert settings(facts, "asked")["sched.max_seqs"] == 1
    assert values(facts, "waiting", 1.0) == [0.0, 3.0, 3.0, 1.0]


def test_the_hit_rate_of_a_boot_is_the_last_one_printed():
    assert values(read(log("v032_prefix_on")), "prefix_hit_rate") == [0.708]


def test_a_compiled_start_names_its_mode_and_time():
    facts = read(log("v032_base_compiled"))
    assert settings(facts)["compile.mode"] == "dynamo_trace_once"
    assert "compile.took" in ids(facts)
    assert [s.fields["cpus"] for s in facts.signals if s.id == "host.omp_binding" and "cpus" in s.fields] == ["[0]"]


# -- older and other layouts ------------------------------------------------------------------------------------------


def test_the_mean_length_of_0_8_leaves_the_bonus_token_out():
    facts = read(
        "INFO 04-29 18:24:05 [metrics.py:82] SpecDecoding metrics: Draft acceptance rate: 46.7%, Mean acceptance "
        "length: 1.40, Accepted: 609 tokens, Drafted: 1305 tokens, Per-position acceptance rate: 0.660, 0.440, 0.300\n"
    )
    assert values(facts, "accept_length") == [2.4]
    assert facts.intervals[0].accept_rate == pytest.approx(0.467)


def test_the_v0_engine_counts_emitted_tokens():
    facts = read(
        "INFO 09-13 02:33:10 metrics.py:351] Avg prompt throughput: 4.6 tokens/s, Avg generation throughput: 61.6 "
        "tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 2 reqs, GPU KV cache usage: 0.1%, CPU KV cache usage: "
        "9.0%.\n"
        "INFO 09-13 02:33:10 metrics.py:367] Speculative metrics: Draft acceptance rate: 0.211, System efficiency: "
        "0.193, Number of speculative tokens: 5, Number of accepted tokens: 41, Number of draft tokens: 194, "
        "Number of emitted tokens: 72.\n"
    )
    (window,) = facts.intervals
    assert window.accept_length == pytest.approx(72 / (194 / 5))
    assert (window.generation_tok_s, window.waiting, window.kv_usage) == (61.6, 2.0, 0.001)


def test_the_v0_engine_counts_its_cache_in_blocks_and_has_decode_graphs():
    facts = read(
        "INFO 05-02 01:00:12 [llm_engine.py:240] Initializing a V0 LLM engine (v0.8.5) with config: model='/models/m', "
        "speculative_config=None, dtype=torch.bfloat16, max_seq_len=8192, enforce_eager=False\n"
        "INFO 05-02 01:00:15 [cuda.py:292] Using Flash Attention backend.\n"
        "INFO 05-02 01:01:01 [executor_base.py:112] # cuda blocks: 27120, # CPU blocks: 2048\n"
        "INFO 05-02 01:01:13 [model_runner.py:1592] Graph capturing finished in 9 secs, took 0.14 GiB\n"
    )
    assert values(facts, "kv_tokens") == [27120 * 16]
    assert settings(facts)["cudagraph.mode"] == "full_decode_only"
    assert settings(facts)["attention.backend"] == "flash_attn"
    assert facts.version == "0.8.5"


def test_a_namespace_is_read_without_what_nobody_asked_for():
    facts = read(
        "INFO 12-19 02:00:02 api_server.py:652] vLLM API server version 0.6.5\n"
        "INFO 12-19 02:00:02 api_server.py:653] args: Namespace(model='/models/m', max_model_len=None, "
        "tensor_parallel_size=2, enforce_eager=True)\n"
    )
    asked = settings(facts, "asked")
    assert "mem.max_context" not in asked
    assert (asked["parallel.tp"], asked["cudagraph.mode"]) == (2, "none")


def test_a_configuration_cut_by_a_pager_tells_its_first_part():
    facts = read(vllm_line("non-default args: {'model': 'Qwen/Qwen3-32B', 'tensor_parallel_size': 2, 'max_num_se"))
    assert settings(facts, "asked")["parallel.tp"] == 2


def test_a_lowered_graph_mode_overrules_the_configuration():
    facts = read(
        vllm_line(
            "Initializing a V1 LLM engine (v0.20.1) with config: model='m', speculative_config=None, "
            "compilation_config={'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, "
            "'cudagraph_capture_sizes': [1, 2, 4]}"
        )
        + vllm_line(
            "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention backend "
            "FlashInferBackend (support: AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE); "
            "setting cudagraph_mode=PIECEWISE",
            level="WARNING",
        )
    )
    assert settings(facts)["cudagraph.mode"] == "piecewise"
    assert settings(facts)["cudagraph.sizes"] == (1, 2, 4)
    assert one(facts, "graph.mode_downgraded").fields["new"] == "PIECEWISE"


def test_graph_modes_show_by_what_was_captured():
    bars = (
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/51 [00:00<?, ?it/s]\r"
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|██████████| 51/51 [00:08<00:00,  6.38it/s]\n"
        "Capturing CUDA graphs (decode, FULL): 100%|██████████| 35/35 [00:05<00:00,  7.00it/s]\n"
    )
    facts = read(vllm_line("vLLM API server version 0.20.1") + bars)
    assert settings(facts)["cudagraph.mode"] == "full_and_piecewise"
    assert [s.fields["total"] for s in facts.signals if s.id == "graph.capture_progress"] == ["51", "35"]


def test_a_second_backend_in_a_worker_that_loads_a_drafter_is_the_drafters():
    chosen = "Using {} attention backend out of potential backends: ['FLASH_ATTN', 'TRITON_ATTN']."
    facts = read(
        vllm_line(chosen.format("FLASH_ATTN"), who="Worker_TP0 pid=5")
        + vllm_line("Loading drafter model...", who="Worker_TP0 pid=5")
        + vllm_line(chosen.format("TRITON_ATTN"), who="Worker_TP0 pid=5")
    )
    assert settings(facts)["attention.backend"] == "flash_attn"
    assert settings(facts)["attention.draft_backend"] == "triton"


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs. To silence this "
         "warning, specify disable_custom_all_reduce=True explicitly.", "comm.custom_allreduce", False),
        ("Registering 6016 cuda graph addresses", "comm.custom_allreduce", True),
        ("vLLM is using nccl==2.28.9", "comm.nccl_version", "2.28.9"),
        ("Using AttentionBackendEnum.FLASHINFER backend.", "attention.backend", "flashinfer"),
        ("Using Flash Attention backend on V1 engine.", "attention.backend", "flash_attn"),
        ("Cannot use FA version 3 with ALiBi, defaulting to FA version 2.", "attention.fa_version", 2),
        ("Enforce eager set, disabling torch.compile and CUDAGraphs.", "cudagraph.mode", "none"),
        ("Chunked prefill is enabled with max_num_batched_tokens=8192.", "sched.max_tokens", 8192),
        ("Asynchronous scheduling is disabled.", "sched.async", False),
        ("Using fp8 data type to store kv cache. It reduces the GPU memory footprint", "kv.dtype", "fp8_e4m3"),
        ("Using 'MARLIN' Mxfp4 MoE backend.", "moe.backend", "marlin"),
        ("Disabling prefix caching: model has non-causal attention layers.", "sched.prefix_cache", False),
        ("Setting kv cache block size to 64 for FLASHMLA backend(s).", "kv.page_size", 64),
        ("Auto-fit max_model_len: reduced from 131072 to 65536 to fit in available KV cache memory (11.42 GiB)",
         "mem.max_context", 65536),
    ],
)  # fmt: skip
def test_single_lines_state_settings(line, key, value):
    assert settings(read(vllm_line(line)))[key] == value


def test_data_parallel_engines_are_kept_apart():
    text = "".join(
        stats(gen, 4, at, engine=engine)
        for at in ("09:15:00", "09:15:10", "09:15:20")
        for engine, gen in (("000", 100.0), ("001", 50.0))
    )
    facts = read(text)
    assert {(i.engine, i.generation_tok_s) for i in facts.intervals} == {("0", 100.0), ("1", 50.0)}
    assert all(i.steady for i in facts.intervals)


def test_steps_printed_one_by_one_give_the_step_time():
    line = "Iteration({}): {} context requests, 0 context tokens, 12 generation requests, 48 generation tokens, "
    text = "".join(
        vllm_line(line.format(i, 0) + f"iteration elapsed time: {ms} ms, GPU KV cache usage: 8.1%")
        for i, ms in enumerate((11.0, 12.0, 50.0))
    )
    assert values(read(text), "step_time_ms", 12.0) == [12.0]


def test_preemptions_are_counted_where_the_line_has_them():
    line = stats(100.0, 4, "09:15:00").replace("Waiting: 0 reqs", "Waiting: 3 reqs, Preemptions: 2")
    assert values(read(line), "preemptions") == [2.0]
