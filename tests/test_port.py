"""A tuned setup is carried over setting by setting, and what cannot be is said."""

from __future__ import annotations

import pytest
from porting import row, sglang, shell, side, vllm

from dflash_doctor.model import Refused, Sample, Snapshot
from dflash_doctor.port import items, port

MTP = (
    "--tp-size 2 --mem-fraction-static 0.85 --context-length 32768 --attention-backend flashinfer "
    "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 "
    "--speculative-num-draft-tokens 4 --cuda-graph-max-bs 16 --trust-remote-code --port 30000"
)
DFLASH = (
    "--tensor-parallel-size 2 --max-model-len 32768 --gpu-memory-utilization 0.90 --attention-backend flash_attn "
    "--max-num-batched-tokens 32768 --trust-remote-code --port 8000 --speculative-config "
    """'{"method":"dflash","model":"/models/Qwen3.6-27B-DFlash","num_speculative_tokens":15}'"""
)
A6000 = "NVIDIA RTX A6000"


# -- the question it all began with -----------------------------------------------------------------------------------


def story():
    return port(sglang(MTP, "0.5.10", gpu=A6000), "vllm", against=vllm(DFLASH, gpu=A6000))


def test_the_tuned_mtp_becomes_vllms_mtp_with_one_draft_less_than_sglang_counts():
    launch = story().launch
    assert launch.configs["speculative_config"] == {"method": "mtp", "num_speculative_tokens": 3}


def test_what_the_fresh_side_runs_instead_is_named():
    p = story()
    assert [(r.key, r.tuned, r.now) for r in p.of("differs")][:3] == [
        ("spec.method", "mtp", "dflash"),
        ("spec.draft_model", None, "/models/Qwen3.6-27B-DFlash"),
        ("spec.depth", 3, 15),
    ]
    assert "leaves --speculative-config.model out" in row(p, "spec.draft_model").why


def test_graph_sizes_change_their_unit_with_the_engine():
    p = story()
    assert "--max-cudagraph-capture-size 64" in shell(p)
    assert "each verifies 4 tokens per step" in row(p, "cudagraph.max_size").why


def test_ports_and_paths_stay_those_of_the_other_side():
    assert "--port 8000" in shell(story())


def test_the_rows_that_cost_most_come_first_in_a_diagnosis():
    rows = items(sglang(MTP, gpu=A6000), vllm(DFLASH, gpu=A6000))
    assert [r.key for r in rows[:2]] == ["spec.method", "spec.draft_model"]
    assert rows == tuple(sorted(rows, key=lambda r: -r.weight))


def test_a_diagnosis_of_an_engine_the_map_does_not_know_has_no_items():
    assert items(Snapshot("x", "llama.cpp"), vllm(DFLASH)) == ()


# -- conventions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "drafts"),
    [
        ("--speculative-algorithm EAGLE3 --speculative-draft-model-path /d --speculative-num-steps 5 "
         "--speculative-eagle-topk 1 --speculative-num-draft-tokens 6", 5),
        ("--speculative-algorithm DFLASH --speculative-draft-model-path /d --speculative-dflash-block-size 16", 15),
        ("--speculative-algorithm DSPARK --speculative-draft-model-path /d --speculative-num-draft-tokens 8", 7),
        ("--speculative-algorithm EAGLE --speculative-draft-model-path /d --speculative-num-steps 5 "
         "--speculative-eagle-topk 8 --speculative-num-draft-tokens 64", 5),
    ],
)  # fmt: skip
def test_sglang_counts_the_bonus_token_among_the_drafts_and_vllm_does_not(flags, drafts):
    p = port(sglang(flags, "0.5.23"), "vllm", "0.33.0")
    assert p.launch.configs["speculative_config"]["num_speculative_tokens"] == drafts


def test_a_tree_of_drafts_has_no_equivalent_and_becomes_a_chain():
    flags = "--speculative-algorithm EAGLE --speculative-draft-model-path /d --speculative-num-steps 5 --speculative-eagle-topk 8 --speculative-num-draft-tokens 64"  # noqa: E501
    found = row(port(sglang(flags), "vllm"), "spec.topk")
    assert found.status == "no equivalent" and "a tree of width 8 becomes a chain of 5" in found.why


def test_a_method_without_a_depth_gets_a_beginning_and_is_marked():
    p = port(sglang("--speculative-algorithm NEXTN"), "vllm")
    assert row(p, "spec.depth").status == "risky"
    assert p.launch.configs["speculative_config"] == {"method": "mtp", "num_speculative_tokens": 3}


def test_ranks_that_share_one_model_are_counted_otherwise():
    flags = "--model-path /models/DeepSeek-V3 --tp 8 --dp 4 --enable-dp-attention --max-running-requests 512"
    there = port(sglang(flags), "vllm")
    assert "--tensor-parallel-size 2 --data-parallel-size 4" in shell(there)
    assert "--max-num-seqs 128" in shell(there)
    assert there.launch.gpus == 8


def test_replicas_of_a_dense_model_stay_replicas():
    there = port(sglang("--model-path /models/Llama-3.1-8B --tp 2 --dp 4"), "vllm")
    assert "--tensor-parallel-size 2 --data-parallel-size 4" in shell(there) and there.launch.gpus == 8


def test_data_parallel_ranks_of_a_model_with_experts_become_dp_attention():
    p = port(vllm("--tensor-parallel-size 1 --data-parallel-size 8 --enable-expert-parallel --all2all-backend "
                  "deepep_low_latency"), "sglang", "0.5.10")  # fmt: skip
    for words in ("--tp-size 8", "--dp-size 8", "--enable-dp-attention", "--ep-size 8", "--moe-a2a-backend deepep",
                  "--deepep-mode low_latency"):  # fmt: skip
        assert words in shell(p)


def test_kv_kept_on_the_host_is_counted_per_rank_or_all_together():
    p = port(sglang("--tp 4 --enable-hierarchical-cache --hicache-size 64"), "vllm")
    assert "--kv-offloading-size 256" in shell(p)
    back = port(vllm("--tensor-parallel-size 4 --kv-offloading-size 256", "0.33.0"), "sglang")
    assert "--hicache-size 64" in shell(back) and "--enable-hierarchical-cache" in shell(back)


def test_page_size_one_has_no_equivalent_in_vllm():
    assert row(port(sglang("--page-size 1"), "vllm"), "kv.page_size").status == "no equivalent"


def test_eager_sglang_is_not_eager_vllm_which_would_stop_compiling_too():
    p = port(sglang("--disable-cuda-graph"), "vllm", "0.20.1")
    assert p.launch.configs["compilation_config"] == {"cudagraph_mode": "NONE"}
    assert "--enforce-eager" not in shell(p)


def test_eager_vllm_is_sglang_without_graphs_as_each_release_says_it():
    eager = vllm("--enforce-eager")
    assert "--disable-cuda-graph" in shell(port(eager, "sglang", "0.5.10"))
    assert "--cuda-graph-backend-decode disabled --cuda-graph-backend-prefill disabled" in shell(
        port(eager, "sglang", "0.5.23")
    )


def test_overlapped_drafting_needs_a_variable_in_the_releases_between():
    p = port(vllm('--speculative-config \'{"method":"mtp","num_speculative_tokens":3}\' --async-scheduling', "0.20.1"),
             "sglang", "0.5.10")  # fmt: skip
    assert "SGLANG_ENABLE_SPEC_V2=1" in shell(p)


def test_the_words_of_parsers_are_translated():
    p = port(sglang("--tool-call-parser gpt-oss --reasoning-parser deepseek-r1"), "vllm", "0.33.0")
    for words in ("--tool-call-parser openai", "--enable-auto-tool-choice", "--reasoning-parser deepseek_r1"):
        assert words in shell(p)


# -- memory -----------------------------------------------------------------------------------------------------------

SGLANG_LOG = """\
[2026-05-04 17:40:50 TP0] Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=32.10 GB, mem usage=15.00 GB.
[2026-05-04 17:41:00 TP0] KV Cache is allocated. #tokens: 200000, K size: 10.00 GB, V size: 10.00 GB
"""  # noqa: E501
VLLM_LOG = """\
INFO 05-06 10:03:24 [gpu_model_runner.py:4879] Model loading took 15.00 GiB memory and 36.700000 seconds
INFO 05-06 10:04:02 [gpu_worker.py:440] Available KV cache memory: {gib} GiB
INFO 05-06 10:04:02 [kv_cache_utils.py:1708] GPU KV cache size: {tokens} tokens
"""


def test_the_fraction_gives_the_other_side_as_many_kv_tokens_as_the_tuned_one_held():
    tuned = sglang("--mem-fraction-static 0.78", log=SGLANG_LOG, gpu=A6000)
    fresh = vllm("--gpu-memory-utilization 0.7", log=VLLM_LOG.format(gib="10.00", tokens="100,000"), gpu=A6000)
    p = port(tuned, "vllm", against=fresh)
    # 100,000 tokens more at 0.1 MiB each are 10 GiB of 48
    assert "--gpu-memory-utilization 0.91" in shell(p)
    assert row(p, "mem.fraction").why == "for 200,000 KV tokens; at 0.7 there were 100,000"


def test_room_enough_is_left_as_it_is():
    tuned = sglang("--mem-fraction-static 0.78", log=SGLANG_LOG, gpu=A6000)
    fresh = vllm("--gpu-memory-utilization 0.7", log=VLLM_LOG.format(gib="22.00", tokens="220,000"), gpu=A6000)
    p = port(tuned, "vllm", against=fresh)
    assert row(p, "mem.fraction").status == "already so" and "--gpu-memory-utilization 0.7" in shell(p)


def test_sglangs_share_is_weights_and_kv_only():
    tuned = vllm("--gpu-memory-utilization 0.9", log=VLLM_LOG.format(gib="20.00", tokens="200,000"), gpu=A6000)
    assert "--mem-fraction-static 0.73" in shell(port(tuned, "sglang"))  # 35 of 48


def test_without_a_known_kv_size_the_fraction_is_a_rule_of_thumb_and_says_so():
    found = row(port(sglang("--mem-fraction-static 0.8"), "vllm"), "mem.fraction")
    assert found.status == "risky" and "rule of thumb" in found.why and "0.85" in found.needs


def test_a_share_nobody_set_is_a_row_when_the_other_side_holds_fewer_tokens():
    tuned = sglang("", log=SGLANG_LOG, gpu=A6000)
    fresh = vllm("", log=VLLM_LOG.format(gib="10.00", tokens="100,000"), gpu=A6000)
    # vLLM 0.20.1 takes 0.92 by itself, and more than 0.95 is not safe
    p = port(tuned, "vllm", against=fresh)
    assert row(p, "mem.fraction").status == "risky" and "--gpu-memory-utilization 0.95" in shell(p)


# -- versions ---------------------------------------------------------------------------------------------------------


def test_a_method_that_came_later_says_from_which_release():
    flags = "--speculative-algorithm DFLASH --speculative-draft-model-path /d --speculative-num-draft-tokens 16"
    p = port(sglang(flags, "0.5.23"), "vllm", "0.19.0")
    assert row(p, "spec.method").status == "needs version"
    assert "vLLM 0.20.1 or later" in row(p, "spec.method").why
    assert "speculative_config" not in p.launch.configs, "no half of it is left"
    assert row(p, "spec.draft_model").why == "vLLM 0.19.0 does not draft by dflash"


def test_a_flag_that_left_says_when():
    found = row(port(vllm("--swap-space 8", "0.14.0"), "vllm", "0.33.0"), "mem.swap_space")
    assert found.status == "no equivalent" and "--swap-space left after 0.17.0" in found.why


def test_defaults_that_moved_between_two_releases_are_named_and_held():
    p = port(vllm("", "0.19.0"), "vllm", "0.33.0")
    moved = {r.key: (r.tuned, r.now) for r in p.of("default changed")}
    assert moved["mem.fraction"] == (0.9, 0.92)
    assert moved["comm.flashinfer_allreduce"] == (False, True) if "comm.flashinfer_allreduce" in moved else True
    assert "--gpu-memory-utilization 0.9" in shell(p)


def test_one_release_ported_to_itself_has_nothing_to_change():
    tuned = vllm(DFLASH, "0.20.1")
    p = port(tuned, "vllm", "0.20.1", against=tuned)
    assert [r.key for r in p.rows if r.acts] == []


def test_older_names_become_those_of_the_release():
    p = port(sglang("--cuda-graph-max-bs 32 --cuda-graph-bs 1 2 4", "0.5.10"), "sglang", "0.5.23")
    assert "--cuda-graph-bs-decode 1 2 4" in shell(p) and "--cuda-graph-max-bs-decode 32" in shell(p)
    assert "VLLM_ATTENTION_BACKEND" in shell(port(vllm("--attention-backend FLASHINFER"), "vllm", "0.11.0"))


def test_a_release_newer_than_the_map_is_said_to_be():
    p = port(sglang(MTP), "vllm", "0.40.0")
    assert any("newer than the map" in n for n in p.notes)
    assert p.launch.configs["speculative_config"]["method"] == "mtp"


# -- nothing is dropped in silence ------------------------------------------------------------------------------------


def test_unknown_flags_are_carried_through_with_a_mark():
    p = port(sglang("--frobnicate hard --shiny"), "vllm")
    assert p.launch.unknown == (("--frobnicate", "hard"), ("--shiny",))
    assert {r.status for r in p.rows if r.key.startswith("other.")} == {"unknown"}
    text = shell(p)
    assert text.index("# not known to the map") < text.index("--frobnicate hard")


def test_within_one_engine_an_unknown_flag_stays_on_the_command():
    p = port(vllm("--frobnicate hard", "0.20.1"), "vllm", "0.33.0")
    assert ("--frobnicate", "hard") in p.launch.flags and not p.launch.unknown
    assert row(p, "other.frobnicate").status == "unknown"


def test_library_variables_go_along_and_engine_variables_say_that_they_mean_nothing():
    p = port(sglang("", environ="NCCL_ALGO=Ring\nSGLANG_LOG_GC=1\nSGLANG_SOMETHING_NEW=2\n"), "vllm")
    assert p.launch.env == {"NCCL_ALGO": "Ring"}
    assert row(p, "env.SGLANG_LOG_GC").status == "no equivalent"
    assert row(p, "env.SGLANG_SOMETHING_NEW").why == "vLLM does not read SGLANG_SOMETHING_NEW"


def test_every_flag_that_was_set_is_in_the_table_or_on_the_launch():
    tuned = sglang(MTP + " --watchdog-timeout 300 --hicache-io-backend kernel --log-requests-level 1")
    p = port(tuned, "vllm")
    rows = {r.key for r in p.rows}
    merged = {"spec.num_steps", "spec.num_draft_tokens"}  # the draft depth says them
    assert set(tuned.asked) - rows - merged == set()


def test_what_only_the_other_side_sets_is_kept_where_it_does_not_tune():
    fresh = vllm("--chat-template /t.jinja --max-num-batched-tokens 2048 --enable-log-requests")
    p = port(sglang(MTP), "vllm", against=fresh)
    assert "--chat-template /t.jinja" in shell(p) and "--enable-log-requests" in shell(p)
    assert "--max-num-batched-tokens" not in shell(p)
    assert "only this side sets it" in row(p, "sched.max_tokens").why


# -- contradictions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--disable-cuda-graph --cuda-graph-max-bs 16", "graphs are off"),
        ("--disable-radix-cache --enable-hierarchical-cache", "radix cache is off"),
        ("--speculative-algorithm EAGLE --speculative-draft-model-path /d --speculative-num-steps 3 "
         "--speculative-eagle-topk 1 --speculative-num-draft-tokens 8", "a chain of 3 verifies 4"),
        ("--speculative-algorithm DFLASH --speculative-draft-model-path /d --speculative-dflash-block-size 8 "
         "--speculative-num-draft-tokens 16", "refuses to start"),
        ("--speculative-num-steps 3 --speculative-draft-model-path /d", "no speculative algorithm"),
        ("--tp 2 --dtype half --tp-size 4", "--tp 2 and --tp-size 4 contradict each other: the last one counts"),
    ],
)  # fmt: skip
def test_flags_that_undo_each_other_are_named(flags, says):
    assert any(says in c for c in port(sglang(flags, "0.5.12"), "vllm").clashes)


def test_a_switch_that_is_also_switched_off_is_named():
    p = port(vllm("--enable-prefix-caching --no-enable-prefix-caching"), "sglang")
    assert any("--enable-prefix-caching and --no-enable-prefix-caching contradict" in c for c in p.clashes)
    assert "--disable-radix-cache" in shell(p), "the last one counts"


@pytest.mark.parametrize("flags", [MTP, "--tp 2 --tp-size 2", "--tp 2 --tp=2"])
def test_a_plain_tuned_setup_contradicts_nothing(flags):
    assert port(sglang(flags), "vllm").clashes == ()


def test_what_was_asked_for_but_does_not_run_is_named_and_what_runs_is_carried():
    log = "INFO 05-06 10:02:48 [cuda.py:318] Using TRITON_ATTN attention backend out of potential backends: ['TRITON_ATTN'].\n"  # noqa: E501
    p = port(vllm("--attention-backend FLASHINFER", log=log), "sglang")
    assert any("--attention-backend flashinfer was asked for, but the engine runs triton" in c for c in p.clashes)
    assert "--attention-backend triton" in shell(p)


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tuned", "to", "more", "says"),
    [
        (sglang(MTP), "ollama", {}, "--to ollama"),
        (Snapshot("x", "llama.cpp"), "vllm", {}, "x runs llama.cpp"),
        (Snapshot("x", "vllm"), "vllm", {}, "says nothing of its settings"),
        (sglang(MTP), "vllm", {"version": "newest"}, "--version newest"),
        (sglang(MTP), "vllm", {"against": sglang(MTP)}, "--against takes the side to port to"),
        (sglang(MTP), "vllm", {"gpu": "Voodoo2"}, "--gpu 'Voodoo2'"),
    ],
)
def test_what_cannot_be_ported_is_refused_in_one_sentence(tuned, to, more, says):
    with pytest.raises(Refused, match=says):
        port(tuned, to, **more)


@pytest.mark.parametrize("odd", ["", "\x00", "--", "--tp", "--tp 2 --tp", "--speculative-config {", "=" * 5000])
def test_odd_launches_are_ported_as_far_as_they_go(odd):
    port(side(f"vllm serve /models/m {odd}", "vllm==0.20.1"), "sglang")


def test_a_capture_without_a_launch_line_says_what_it_takes_for_set():
    log = "[2026-05-04 17:40:12] server_args=ServerArgs(model_path='/m', tp_size=2, schedule_policy='fcfs', disable_radix_cache=True)\n"  # noqa: E501
    p = port(side("", "sglang==0.5.10", log=log), "vllm", "0.33.0")
    assert "--tensor-parallel-size 2" in shell(p) and "--no-enable-prefix-caching" in shell(p)
    assert p.gaps and "not in the capture" in p.gaps[0].why


def test_samples_of_kv_tokens_are_read_before_log_lines():
    from dataclasses import replace

    tuned = replace(sglang("--mem-fraction-static 0.8", gpu=A6000), samples=(Sample("kv_tokens", 1000.0),))
    fresh = vllm("--gpu-memory-utilization 0.7", log=VLLM_LOG.format(gib="10.00", tokens="100,000"), gpu=A6000)
    assert row(port(tuned, "vllm", against=fresh), "mem.fraction").status == "already so"
