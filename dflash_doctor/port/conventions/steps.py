"""What a step is made of: CUDA graphs and their sizes, compilation, scheduling beside the GPU.

vLLM's graph sizes are tokens of a step, SGLang's are requests; with three drafts a request takes four tokens.
"""

from __future__ import annotations

from typing import Any

from dflash_doctor.port import tables
from dflash_doctor.port.conventions.wants import Parts, Table, Want, off, whole
from dflash_doctor.port.move import Move
from dflash_doctor.settings.versions import number

SPEC_V2 = "env.SGLANG_ENABLE_SPEC_V2"


def _sizes(m: Move, key: str, value: Any) -> Want:
    if m.value("cudagraph.mode") == "none":
        return Want(needless="graphs are off")
    if not (isinstance(value, (tuple, list)) and value and all(whole(v) for v in value)):
        return Want(missing="they are no numbers")
    if m.width == 1:
        return Want(((key, tuple(value)),))
    if m.engine == "vllm":
        return Want(((key, tuple(v * m.width for v in value)),), _counted(m))
    narrow = tuple(sorted({v // m.width for v in value if v >= m.width}))
    return Want(((key, narrow),), _counted(m)) if narrow else Want(missing=f"no size holds {m.width} tokens")


def _max_size(m: Move, key: str, value: Any) -> Want:
    if m.value("cudagraph.mode") == "none":
        return Want(needless="graphs are off")
    if not whole(value):
        return Want(missing="it is no number")
    if m.width == 1:
        return Want(((key, value),))
    return Want(((key, value * m.width if m.engine == "vllm" else max(1, value // m.width)),), _counted(m))


def _counted(m: Move) -> str:
    return f"vLLM counts tokens, SGLang requests, and each verifies {m.width} tokens per step"


def _graphs_to_vllm(m: Move, key: str, value: Any) -> Want:
    if value in ("none", "piecewise"):
        return Want(((key, value),))
    if value == "full_decode_only" and m.by(key) == "set":
        return Want(((key, value),), "vLLM has graphs for prefill too unless told not to", risky=True)
    return Want(needless="vLLM captures full graphs for decode by itself")


def _compile_to_vllm(m: Move, key: str, value: Any) -> Want:
    return Want(needless="vLLM compiles by itself" + ("; that is no loss" if value == "none" else ""))


def _compile_to_sglang(m: Move, key: str, value: Any) -> Want:
    if value == "none":
        return Want(needless="SGLang compiles only when asked to")
    return Want(missing=tables.hint(key, "sglang"))


def _async_to_vllm(m: Move, key: str, value: Any) -> Want:
    if (number(m.version) or ()) >= (0, 14):
        if value:
            return Want(needless="vLLM does so by itself wherever the method allows it")
        return Want(((key, False),))
    if not value:
        return Want(needless="it is off there unless asked for")
    if m.drafts_there:
        return Want(missing="vLLM before 0.14 does not overlap while it drafts")
    return Want(((key, True),))


def _async_to_sglang(m: Move, key: str, value: Any) -> Want:
    if not value:
        return Want(((key, False),))
    here = number(m.version) or ()
    if m.drafts_there and here < (0, 5, 6):
        return Want(missing="SGLang before 0.5.6 does not overlap while it drafts")
    if m.drafts_there and here < (0, 5, 12):
        return Want(((SPEC_V2, "1"),), "this release overlaps drafting only so")
    return Want(needless="SGLang does so by itself")


def _spec_v2_to_vllm(m: Move, key: str, value: Any) -> Want:
    return Want(merged="asynchronous scheduling")


def _chunked_to_sglang(m: Move, key: str, value: Any) -> Want:
    return Want(needless="SGLang does so by itself") if value else Want((("sched.max_tokens", -1),))


def _policy_to_sglang(m: Move, key: str, value: Any) -> Want:
    parts: Parts = (("sched.enable_priority_scheduling", True),) if value == "priority" else ((key, value),)
    return Want(parts)


def _priority_to_vllm(m: Move, key: str, value: Any) -> Want:
    return Want((("sched.policy", "priority"),)) if value else Want(needless="it is off")


def _tools_to_vllm(m: Move, key: str, value: Any) -> Want:
    return Want(((key, value), ("serve.auto_tool_choice", True)), "vLLM calls tools only when told to choose by itself")


TABLE: Table = {
    ("vllm", "serve.tool_call_parser"): _tools_to_vllm,
    ("vllm", "cudagraph.sizes"): _sizes,
    ("sglang", "cudagraph.sizes"): _sizes,
    ("vllm", "cudagraph.max_size"): _max_size,
    ("sglang", "cudagraph.max_size"): _max_size,
    ("vllm", "cudagraph.mode"): _graphs_to_vllm,
    ("vllm", "compile.mode"): _compile_to_vllm,
    ("sglang", "compile.mode"): _compile_to_sglang,
    ("vllm", "sched.async"): _async_to_vllm,
    ("sglang", "sched.async"): _async_to_sglang,
    ("vllm", SPEC_V2): _spec_v2_to_vllm,
    ("sglang", "sched.chunked_prefill"): _chunked_to_sglang,
    ("sglang", "sched.policy"): _policy_to_sglang,
    ("vllm", "sched.enable_priority_scheduling"): _priority_to_vllm,
    ("vllm", "sched.enable_mixed_chunk"): off("vLLM always mixes prefill and decode in one step"),
    ("vllm", "obs.metrics"): off("vLLM always serves /metrics"),
    ("sglang", "serve.auto_tool_choice"): off("on as soon as a tool call parser is given"),
}
