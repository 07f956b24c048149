"""One knob has one name, whoever speaks of it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor import paths, settings
from dflash_doctor.model import Evidence


def values(found) -> dict:
    return {s.key: s.value for s in found}


def flags(engine: str, line: str, version: str | None = None) -> dict:
    return values(settings.from_flags(engine, line.split(), version))


# -- two engines, one vocabulary --------------------------------------------------------------------------------------


def test_sglangs_nextn_and_vllms_mtp_are_the_same_speculation():
    sglang = flags(
        "sglang",
        "--model-path /models/Qwen3.6-27B --tp-size 2 --speculative-algorithm NEXTN --speculative-num-steps 3 "
        "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
    )
    vllm = values(
        settings.from_args(
            "vllm",
            {
                "model": "/srv/Qwen3.6-27B",
                "tensor_parallel_size": 2,
                "speculative_config": {"method": "mtp", "num_speculative_tokens": 3},
            },
            "0.20.1",
            "asked",
        )
    )
    for key in ("spec.method", "spec.depth", "parallel.tp", "model.path"):
        assert settings.alike(key, sglang[key], vllm[key]), key
    assert (sglang["spec.method"], sglang["spec.depth"]) == ("mtp", 3)


@pytest.mark.parametrize(
    ("key", "vllm", "sglang"),
    [
        ("sched.prefix_cache", "--no-enable-prefix-caching", "--disable-radix-cache"),
        ("cudagraph.mode", "--enforce-eager", "--disable-cuda-graph"),
        ("comm.custom_allreduce", "--disable-custom-all-reduce", "--disable-custom-all-reduce"),
        ("sched.async", "--no-async-scheduling", "--disable-overlap-schedule"),
        ("kv.dtype", "--kv-cache-dtype fp8", "--kv-cache-dtype fp8_e4m3"),
        ("model.dtype", "--dtype half", "--dtype float16"),
        ("mem.max_context", "--max-model-len 32768", "--context-length 32768"),
        ("sched.max_tokens", "--max-num-batched-tokens 8192", "--chunked-prefill-size 8192"),
        ("sched.max_seqs", "--max-num-seqs 16", "--max-running-requests 16"),
        ("attention.backend", "--attention-backend FLASH_ATTN", "--attention-backend fa3"),
        ("attention.backend", "--attention-backend TRITON_ATTN", "--attention-backend triton"),
        ("moe.backend", "--moe-backend flashinfer_cutlass", "--moe-runner-backend flashinfer_cutlass"),
        ("model.quantization", "--quantization modelopt", "--quantization modelopt_fp4"),
        ("parallel.ep", "-tp 8 --enable-expert-parallel", "--tp 8 --ep-size 8"),
        ("sampling.defaults", "--generation-config vllm", "--sampling-defaults openai"),
        ("grammar.backend", "--structured-outputs-config.backend guidance", "--grammar-backend llguidance"),
        ("spec.draft_model", "--spec-model /a/eagle3", "--speculative-draft-model-path /b/c/eagle3"),
    ],
)
def test_both_engines_words_for_one_thing_agree(key, vllm, sglang):
    was, now = flags("vllm", vllm), flags("sglang", sglang)
    assert key in was and key in now
    assert settings.alike(key, was[key], now[key]), (was[key], now[key])


@pytest.mark.parametrize(
    ("algorithm", "rest", "method", "depth"),
    [
        (
            "EAGLE",
            {"draft_model_path": "/m/eagle", "num_steps": 5, "eagle_topk": 8, "num_draft_tokens": 26},
            "eagle",
            5,
        ),
        ("EAGLE", {"draft_model_path": "/m/target", "num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}, "mtp", 3),
        ("EAGLE3", {"draft_model_path": "/m/e3", "num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}, "eagle3", 3),
        ("DFLASH", {"draft_model_path": "/m/df", "num_draft_tokens": 16}, "dflash", 15),
        ("DSPARK", {"draft_model_path": "/m/ds", "num_draft_tokens": 6}, "dspark", 5),
        ("STANDALONE", {"draft_model_path": "/m/small", "num_steps": 4, "num_draft_tokens": 5}, "draft_model", 4),
        ("NGRAM", {"num_draft_tokens": 5}, "ngram", 4),
    ],
)
def test_sglang_counts_the_bonus_position_and_we_do_not(algorithm, rest, method, depth):
    args = {"model_path": "/m/target", "speculative_algorithm": algorithm}
    found = values(
        settings.from_args("sglang", args | {f"speculative_{k}": v for k, v in rest.items()}, None, "effective")
    )
    assert (found["spec.method"], found["spec.depth"]) == (method, depth)


@pytest.mark.parametrize("name", ["deepseek_mtp", "qwen3_next_mtp", "glm4_moe_mtp", "mtp"])
def test_every_models_mtp_is_mtp(name):
    config = {"method": name, "num_speculative_tokens": 2}
    found = values(settings.from_args("vllm", {"speculative_config": config}, None, "asked"))
    assert found["spec.method"] == "mtp"


def test_no_speculation_is_knowledge_when_the_engine_says_so():
    for engine, args in (("vllm", {"speculative_config": None}), ("sglang", {"speculative_algorithm": None})):
        (found,) = settings.from_args(engine, args, None, "effective")
        assert (found.key, found.value, found.said) == ("spec.method", "none", "effective")


def test_resolved_arguments_of_a_server_that_does_not_draft_say_nothing_of_drafts():
    args = {"speculative_algorithm": None, "speculative_num_steps": 5, "speculative_num_draft_tokens": 6}
    assert values(settings.from_args("sglang", args, None, "effective")) == {"spec.method": "none"}


# -- vLLM -------------------------------------------------------------------------------------------------------------


def test_enforce_eager_turns_graphs_and_compilation_off_whatever_else_is_asked():
    found = flags("vllm", "/m --compilation-config.cudagraph_mode FULL --enforce-eager -O3")
    assert (found["cudagraph.mode"], found["compile.mode"]) == ("none", "none")


@pytest.mark.parametrize(
    "typed", ["-O3", "-O 3", "-O=3", "--compilation-config 3", "-cc.mode=3", '-O {"level":3}', "-O.mode 3"]
)
def test_every_way_to_type_a_compilation_level_is_read(typed):
    assert flags("vllm", f"/m {typed}")["compile.mode"] == "vllm_compile"


def test_dotted_and_json_options_are_the_same():
    dotted = flags("vllm", "/m --speculative-config.method mtp --speculative-config.num_speculative_tokens 1")
    as_json = flags("vllm", '/m --speculative-config {"method":"mtp","num_speculative_tokens":1}')
    assert dotted == as_json
    assert dotted["spec.depth"] == 1


def test_the_last_of_equal_flags_wins_and_underscores_are_dashes():
    found = flags("vllm", "/m --gpu_memory_utilization 0.8 --gpu-memory-utilization=0.95 --max-model-len 32k")
    assert (found["mem.fraction"], found["mem.max_context"]) == (0.95, 32_000)
    assert flags("vllm", "/m --max-model-len 8K")["mem.max_context"] == 8192  # binary, as the engine reads it


def test_the_words_of_ten_releases_ago_are_still_understood():
    found = flags(
        "vllm", "--model Q -tp 1 --speculative_model [ngram] --num_speculative_tokens 5 --ngram-prompt-lookup-max 4"
    )
    assert (found["spec.method"], found["spec.depth"], found["spec.prompt_lookup_max"]) == ("ngram", 5, 4)
    assert "spec.draft_model" not in found


def test_switches_do_not_swallow_the_model():
    for line in ("--enforce-eager /m", "--trust-remote-code /m", "--enable-log-requests /m", "--port 8000 /m"):
        assert flags("vllm", line)["model.path"] == "/m"


def test_expert_parallelism_spreads_over_tensor_and_data_ranks():
    assert flags("vllm", "/m -tp 4 -dp 2 -ep")["parallel.ep"] == 8
    assert flags("vllm", "/m -tp 4 -dp 2 --no-enable-expert-parallel")["parallel.ep"] == 1


def test_the_configuration_object_says_what_the_flags_say():
    config = {
        "model_config": {"model": "/m", "dtype": "torch.bfloat16", "max_model_len": 4096, "quantization": None},
        "cache_config": {"block_size": 16, "gpu_memory_utilization": 0.92, "cache_dtype": "fp8"},
        "scheduler_config": {"max_num_seqs": 8, "policy": "fcfs", "async_scheduling": True},
        "compilation_config": {"mode": "CompilationMode.VLLM_COMPILE", "cudagraph_mode": "<CUDAGraphMode.FULL: 2>"},
        "attention_config": {"backend": "AttentionBackendEnum.FLASH_ATTN", "flash_attn_version": 3},
    }
    found = values(settings.from_args("vllm", config, "0.32.0", "effective"))
    assert found["model.dtype"] == "bfloat16" and found["model.quantization"] == "none"
    assert found["kv.dtype"] == "fp8_e4m3" and found["sched.policy"] == "fcfs" and found["sched.async"] is True
    assert (found["compile.mode"], found["cudagraph.mode"]) == ("vllm_compile", "full")
    assert (found["attention.backend"], found["attention.fa_version"]) == ("flash_attn", 3)
    assert not [k for k in found if k.startswith("other.")]


# -- SGLang -----------------------------------------------------------------------------------------------------------


def test_a_chunk_of_minus_one_is_no_chunked_prefill():
    found = flags("sglang", "--model-path m --chunked-prefill-size -1")
    assert found["sched.chunked_prefill"] is False and "sched.max_tokens" not in found


@pytest.mark.parametrize(
    ("decode", "prefill", "mode"),
    [
        ("disabled", "disabled", "none"),
        ("full", "disabled", "full_decode_only"),
        ("full", "breakable", "full_and_piecewise"),
        ("breakable", "breakable", "piecewise"),
    ],
)
def test_the_graph_mode_of_sglang_is_made_of_its_two_phases(decode, prefill, mode):
    config = {"decode": {"backend": decode, "bs": [1, 2, 4], "max_bs": 4}, "prefill": {"backend": prefill}}
    found = values(settings.from_args("sglang", {"cuda_graph_config": config}, "0.5.23", "effective"))
    assert found["cudagraph.mode"] == mode
    assert ("cudagraph.sizes" in found) is (mode != "none"), "sizes that are not captured are not sizes"


def test_graphs_of_an_old_sglang_are_full_decode_graphs():
    found = values(settings.from_args("sglang", {"disable_cuda_graph": False}, "0.5.3", "effective"))
    assert found["cudagraph.mode"] == "full_decode_only"


def test_argparse_would_have_completed_it_and_so_do_we():
    assert flags("sglang", "--model m --mem-fraction 0.7 --tp 2 --dp 4") == {
        "model.path": "m", "mem.fraction": 0.7, "parallel.tp": 2, "parallel.dp": 4,
    }  # fmt: skip


# -- what nobody knows, what nobody may know --------------------------------------------------------------------------


def test_what_no_row_knows_is_kept():
    found = flags("vllm", '/m --shiny-new-switch --shiny-new-size 7 --additional-config {"a":{"b":1}}')
    assert found["other.shiny_new_switch"] is True and found["other.shiny_new_size"] == "7"
    assert "1" in str(found["other.additional_config"])


def test_keys_and_tokens_are_neither_kept_nor_shown():
    found = settings.from_flags("vllm", ["/m", "--api-key", "sk-1", "sk-2", "--hf-token=hf_3"], None, "cmdline", 1)
    said = " ".join(f"{s.value} {s.evidence.text if s.evidence else ''}" for s in found)
    assert "sk-1" not in said and "sk-2" not in said and "hf_3" not in said
    env = settings.from_environ("vllm", {"VLLM_API_KEY": "sk-1", "HF_TOKEN": "x", "NCCL_DEBUG": "INFO"}, None)
    assert values(env) == {"env.NCCL_DEBUG": "INFO"}


def test_each_flag_is_its_own_evidence():
    found = settings.from_flags(
        "sglang", ["--model-path", "m", "--disable-radix-cache", "--tp", "2"], None, "cmdline", 3
    )
    lines = {s.key: s.evidence for s in found}
    assert lines["parallel.tp"] == Evidence("cmdline", "--tp 2", 3)
    assert lines["sched.prefix_cache"] == Evidence("cmdline", "--disable-radix-cache", 3)


# -- environment ------------------------------------------------------------------------------------------------------


def test_a_variable_sets_the_backend_only_in_releases_that_read_it():
    env = {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}
    assert values(settings.from_environ("vllm", env, "0.14.0"))["attention.backend"] == "flashinfer"
    assert values(settings.from_environ("vllm", env, "0.20.1")) == {"env.VLLM_ATTENTION_BACKEND": "FLASHINFER"}


def test_variables_are_kept_by_name_and_under_their_neutral_key():
    env = {"NCCL_NVLS_ENABLE": "0", "VLLM_USE_FLASHINFER_SAMPLER": "1", "PATH": "/bin", "HOME": "/root"}
    assert values(settings.from_environ("vllm", env, "0.32.0")) == {
        "env.NCCL_NVLS_ENABLE": "0", "comm.nvls": False,
        "env.VLLM_USE_FLASHINFER_SAMPLER": "1", "sampling.backend": "flashinfer",
    }  # fmt: skip


# -- defaults ---------------------------------------------------------------------------------------------------------


def test_a_default_is_that_of_the_release():
    assert values(settings.defaults("vllm", "0.19.0"))["mem.fraction"] == 0.9
    assert values(settings.defaults("vllm", "0.20.1"))["mem.fraction"] == 0.92
    assert values(settings.defaults("sglang", "0.5.10"))["sched.prefix_cache"] is True
    assert "sched.max_seqs" not in values(settings.defaults("vllm", "0.20.1")), "it depends on the GPU"


def test_without_a_release_there_is_no_default():
    assert settings.defaults("vllm", None) == ()
    assert settings.defaults("vllm", "0.1.dev8+g3a5f") == ()
    assert settings.defaults("other", "1.0") == ()


def test_nobody_drafts_by_default():
    assert values(settings.defaults("vllm", "0.32.0"))["spec.method"] == "none"
    assert all(s.said == "default" for s in settings.defaults("sglang", "0.5.23"))


# -- alike ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "was", "now"),
    [
        ("model.dtype", "auto", "bfloat16"),
        ("model.path", "/models/Qwen3.6-27B", "/srv/hub/Qwen3.6-27B/"),
        ("model.path", "Qwen/Qwen3-8B", "/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/1a2b3c"),
        ("attention.backend", "flash_attn", "fa3"),
        ("mem.fraction", 0.9, "0.90"),
        ("kv.dtype", "auto", "bfloat16"),
        ("cudagraph.sizes", (1, 2, 4), [1, 2, 4]),
        ("model.quantization", "modelopt_fp4", "nvfp4"),
        ("model.quantization", "gptq_marlin", "gptq"),
        ("serve.port", 8000, 30000),
        ("model.served_name", ("a",), ("b",)),
        ("model.seed", 1, 577498385),
        ("env.VLLM_USE_DEEP_GEMM", "1", "True"),
        ("other.something", True, "true"),
    ],
)  # fmt: skip
def test_these_mean_the_same(key, was, now):
    assert settings.alike(key, was, now) and settings.alike(key, now, was)


@pytest.mark.parametrize(
    ("key", "was", "now"),
    [
        ("attention.backend", "flashinfer", "triton"),
        ("attention.backend", "flash_attn", "flashinfer"),
        ("model.path", "/models/Qwen3.6-27B", "/models/Qwen3.6-27B-FP8"),
        ("model.quantization", "none", "fp8"),
        ("parallel.tp", 2, 4),
        ("cudagraph.sizes", (1, 2, 4), (1, 2)),
        ("sched.prefix_cache", True, False),
        ("kv.dtype", "fp8_e4m3", "nvfp4"),
        ("kv.dtype", "fp8_e4m3", "auto"),
        ("env.NCCL_P2P_LEVEL", "SYS", "PHB"),
        ("spec.method", "none", "mtp"),
    ],
)
def test_these_do_not(key, was, now):
    assert not settings.alike(key, was, now)


# -- weights ----------------------------------------------------------------------------------------------------------


def test_what_moves_the_speed_weighs_more_than_what_does_not():
    for heavy in ("parallel.tp", "spec.method", "cudagraph.mode", "attention.backend", "env.NCCL_P2P_DISABLE"):
        assert settings.speed_weight(heavy) >= 0.9
    for idle in ("serve.port", "serve.host", "model.served_name", "serve.api_key", "obs.log_level"):
        assert settings.speed_weight(idle) == 0
    assert settings.speed_weight("package.torch") > settings.speed_weight("package.numpy")
    assert 0 < settings.speed_weight("other.anything") < settings.speed_weight("kv.dtype")
    assert 0 < settings.speed_weight("a.key.nobody.knows") < 1


# -- the data ---------------------------------------------------------------------------------------------------------


def test_every_concept_of_porting_has_its_knobs_and_every_knob_its_concept():
    concepts = yaml.safe_load(paths.data("concepts.yaml").read_text(encoding="utf-8"))["concepts"]
    assert len(concepts) == 106
    named = {row.port for row in settings.SETTINGS.values() if row.port}
    spelled = {s.port for r in settings.SETTINGS.values() for e in ("vllm", "sglang") for s in r.spellings(e) if s.port}
    assert named | spelled <= set(concepts)
    for key, concept in concepts.items():
        assert key in named | spelled or concept.get("also") or concept.get("containers"), key
        assert set(concept.get("also", ())) <= set(settings.SETTINGS)


def test_every_row_is_one_knob_with_a_title_and_a_weight():
    for key, row in settings.SETTINGS.items():
        assert row.title and 0 <= row.speed <= 1, key
        assert row.kind in ("int", "float", "bool", "word", "str", "list", "sizes"), key
        assert row.same in ("value", "path", "attention", "quantization", "kv", "any"), key


def test_no_two_rows_share_a_flag_or_a_variable():
    for engine in ("vllm", "sglang"):
        seen: dict[str, str] = {}
        for key, row in settings.SETTINGS.items():
            for s in row.spellings(engine):
                for name in {s.flag, s.env, s.json, *s.aliases} - {None}:
                    assert seen.setdefault(name, key) == key, name


def test_versions_of_a_spelling_are_ranges_we_can_read():
    for row in settings.SETTINGS.values():
        for engine, newest in (("vllm", "0.33.0"), ("sglang", "0.5.23")):
            for s in row.spellings(engine):
                assert s.acts(newest) in (True, False), s


def test_importing_settings_loads_no_data():
    code = "import dflash_doctor.settings, sys; print('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


# -- any input --------------------------------------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(
    ["speculative_config", "compilation_config", "enforce_eager", "tp_size", "cuda_graph_config", "max_model_len",
     "speculative_num_steps", "speculative_algorithm", "chunked_prefill_size", "kv_offloading_size", "x"]
)  # fmt: skip


@given(args=st.dictionaries(NAMES, ANYTHING, max_size=6), engine=st.sampled_from(["vllm", "sglang", "other"]))
def test_no_argument_value_is_too_odd(args, engine):
    for s in settings.from_args(engine, args, None, "asked"):
        settings.alike(s.key, s.value, "x")


@given(
    words=st.lists(
        st.text(max_size=20) | st.sampled_from(["--speculative-config", "-O", "--tp", "--x=", "-cc.a.b="]), max_size=12
    )
)
def test_no_words_are_too_odd(words):
    for engine in ("vllm", "sglang", "other"):
        settings.from_flags(engine, words, None, "cmdline")


@given(text=st.text(max_size=200))
def test_no_configuration_text_is_too_odd(text):
    assert isinstance(settings.read_config(text), dict)


@pytest.mark.parametrize("piece", ["'\\", "a=(", "{'a': ", "<a ", "x='", "[[", "a=b, ", "\"'"])
def test_configuration_text_is_read_in_one_pass(piece):
    began = time.perf_counter()
    settings.read_config(piece * 40_000)
    assert time.perf_counter() - began < 3


def test_a_configuration_in_python_print_is_read_as_it_was_meant():
    read = settings.read_config(
        "model='/m', spec=SpeculativeConfig(method='mtp', k=3), cc={'mode': <CompilationMode.NONE: 0>, 'ops': ['all'], "
        "'empty': {}}, dtype=torch.float32, url=http://h:80/x, quant=None, seed=0, f=0.92, cut=[1, 2"
    )
    assert read["spec"] == {"method": "mtp", "k": 3}
    assert read["cc"] == {"mode": "NONE", "ops": ["all"], "empty": {}}
    assert (read["dtype"], read["url"], read["quant"], read["f"]) == ("torch.float32", "http://h:80/x", None, 0.92)
    assert read["cut"] == [1, 2]
