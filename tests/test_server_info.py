"""What a running server says about itself is in effect."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.model import Unreadable
from dflash_doctor.parsers import server_info

SAID = Path(__file__).parent / "said"
SGLANG = (SAID / "sglang-0.5.23-standalone.json").read_text(encoding="utf-8")
VLLM = (SAID / "vllm-0.32.0-eager.json").read_text(encoding="utf-8")


def parse(said, source: str = "server_info.json"):
    return server_info.parse(said if isinstance(said, str) else json.dumps(said), source)


def values(facts, said: str = "effective") -> dict:
    return {s.key: s.value for s in facts.settings if s.said == said}


def test_sglangs_answer_is_its_resolved_arguments():
    facts = parse(SGLANG)
    found = values(facts)
    assert (facts.engine, facts.version, facts.served) == ("sglang", "0.5.23", True)
    assert (found["spec.method"], found["spec.depth"], found["spec.topk"]) == ("draft_model", 4, 1)
    assert found["attention.backend"] == "torch_native" and found["host.device"] == "cpu"
    assert found["cudagraph.mode"] == "none" and "cudagraph.sizes" not in found
    assert found["sched.max_seqs"] == 48 and found["sched.async"] is False and found["sched.prefix_cache"] is True
    assert {s.metric: s.value for s in facts.samples} == {"kv_tokens": 32768.0}


def test_evidence_is_what_the_server_wrote_not_what_we_made_of_it():
    (cache,) = [s for s in parse(SGLANG).settings if s.key == "sched.prefix_cache"]
    assert (cache.value, cache.evidence.text) == (True, "disable_radix_cache: False")


def test_what_the_operator_asked_for_stands_beside_it():
    asked = values(parse(SGLANG), "asked")
    assert asked["spec.method"] == "draft_model" and "sched.max_seqs" not in asked, "48 came from the engine"


def test_keys_of_the_server_are_not_kept():
    facts = parse({"model_path": "/m", "api_key": "sk-1", "admin_api_key": "sk-2", "watermark_key": "k"})
    assert "sk-" not in str(facts) and "'k'" not in str(facts)


def test_the_flat_answer_of_an_old_sglang_is_read():
    facts = parse(
        {"model_path": "/m", "tp_size": 2, "disable_cuda_graph": False, "speculative_algorithm": "EAGLE3",
         "speculative_draft_model_path": "/e", "speculative_num_steps": 3, "speculative_eagle_topk": 1,
         "speculative_num_draft_tokens": 4, "max_total_num_tokens": 91234, "last_gen_throughput": 73.5,
         "avg_spec_accept_length": 2.71, "version": "0.4.6"}
    )  # fmt: skip
    found = values(facts)
    assert (found["spec.method"], found["spec.depth"], found["cudagraph.mode"]) == ("eagle3", 3, "full_decode_only")
    lengths = [s for s in facts.samples if s.metric == "accept_length"]
    assert lengths[0].value == 2.71 and lengths[0].conditions, "a mean since the start is no round's value"


def test_ranks_have_one_capacity_and_their_own_acceptance():
    ranks = [{"avg_spec_accept_length": 2.0, "decode_cuda_graph_bs": [1, 2, 4]}, {"avg_spec_accept_length": 3.0}]
    facts = parse({"model_path": "/m", "dp_size": 2, "max_total_num_tokens": 5000, "internal_states": ranks})
    assert {s.metric: s.value for s in facts.samples} == {"kv_tokens": 5000.0, "accept_length": 2.5}
    assert values(facts)["cudagraph.sizes"] == (1, 2, 4)


def test_acceptance_before_the_first_draft_is_not_zero():
    facts = parse({"model_path": "/m", "internal_states": [{"avg_spec_accept_length": 0.0}]})
    assert facts.samples == ()


def test_vllms_answer_is_its_configuration():
    facts = parse(VLLM)
    found = values(facts)
    assert (facts.engine, facts.version) == ("vllm", "0.32.0")
    assert found["spec.method"] == "none" and found["cudagraph.mode"] == "none" and found["compile.mode"] == "none"
    assert found["model.path"] == "/srv/models/small/target" and found["mem.max_context"] == 2048
    assert found["comm.custom_allreduce"] is False and found["model.quantization"] == "none"
    assert facts.packages["torch"] == "2.13.0+cpu"
    assert found["env.VLLM_CPU_OMP_THREADS_BIND"] == "0-1"


def test_vllms_answer_as_an_object_is_read_alike():
    config = {"model_config": {"model": "/m", "enforce_eager": False}, "parallel_config": {"tensor_parallel_size": 2},
              "speculative_config": {"method": "mtp", "num_speculative_tokens": 3}}  # fmt: skip
    found = values(parse({"vllm_config": config}))
    assert found == {"model.path": "/m", "parallel.tp": 2, "spec.method": "mtp", "spec.depth": 3}


def test_version_and_models_are_read():
    assert parse({"version": "0.20.1+cu129"}, "version.json").version == "0.20.1+cu129"
    model = {"id": "small", "owned_by": "vllm", "root": "/m", "parent": None, "max_model_len": 2048}
    adapter = {"id": "tuned", "owned_by": "vllm", "root": "/lora", "parent": "small"}
    facts = parse({"object": "list", "data": [adapter, model]}, "models.json")
    assert facts.engine == "vllm" and facts.served is True
    assert values(facts) == {"mem.max_context": 2048, "model.path": "/m", "model.served_name": ("small",)}


def test_sglang_repeats_the_served_name_where_the_path_would_be():
    model = {"id": "small", "owned_by": "sglang", "root": "small", "max_model_len": 2048}
    assert "model.path" not in values(parse({"data": [model]}, "models.json"))


@pytest.mark.parametrize(
    ("said", "source", "why"),
    [
        ("", "server_info.json", "empty"),
        ("<html>404</html>", "server_info.json", "web page"),
        ("{", "server_info.json", "not JSON"),
        ("[]", "server_info.json", "object was expected"),
        ({"detail": "Not Found"}, "server_info.json", "refused: Not Found"),
        ({"error": "Unauthorized"}, "models.json", "Unauthorized"),
        ({"data": []}, "models.json", "no model"),
        ({}, "version.json", "version"),
        ("[" * 100_000, "server_info.json", "too deep|not JSON"),
        ("\x01\x02" * 99, "version.json", "binary"),
    ],
)
def test_an_answer_that_says_nothing_is_unreadable(said, source, why):
    with pytest.raises(Unreadable, match=why):
        parse(said, source)


NAMES = st.sampled_from(
    ["model_path", "internal_states", "version", "vllm_config", "vllm_env", "system_env", "data", "max_model_len",
     "root", "owned_by", "parent", "id", "step_time_dict", "1", "launch_command", "env_vars", "pip_packages",
     "cuda_graph_config", "avg_spec_accept_length", "decode_cuda_graph_bs", "speculative_config", "tp_size",
     "max_total_num_tokens"]
)  # fmt: skip
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(said=st.dictionaries(NAMES, ANYTHING, max_size=6), source=st.sampled_from(server_info.READS))
def test_any_answer_is_read_or_unreadable(said, source):
    with suppress(Unreadable):
        parse(said, source)


@given(text=st.text(max_size=200), source=st.sampled_from(server_info.READS))
def test_any_text_is_read_or_unreadable(text, source):
    with suppress(Unreadable):
        parse(text, source)


def test_a_long_answer_is_read_in_one_pass():
    began = time.perf_counter()
    parse({"vllm_config": "a=(b, " * 50_000})
    parse({"model_path": "/m", "launch_command": "--x '" * 50_000, **{f"k{i}": i for i in range(20_000)}})
    assert time.perf_counter() - began < 8
