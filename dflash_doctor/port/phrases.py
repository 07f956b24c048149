"""Settings that one engine says with several flags at once, or says otherwise in every few releases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dflash_doctor.port import spell, tables
from dflash_doctor.port.move import Move
from dflash_doctor.port.spell import Spelled
from dflash_doctor.settings.versions import number

Phrase = Callable[[Move, Any], Spelled]
PHASES = (0, 5, 13)  # from here SGLang has one graph backend for each phase


def say(m: Move, key: str, value: Any) -> Spelled:
    """How the other side's release says it."""
    phrase = _TABLE.get((m.engine, key))
    return phrase(m, value) if phrase is not None else spell.spell(key, value, m.engine, m.version)


def _here(m: Move) -> tuple[int, ...]:
    return number(m.version) or ()


# -- SGLang -----------------------------------------------------------------------------------------------------------


def _depth(m: Move, value: Any) -> Spelled:
    if not isinstance(value, int):
        return Spelled(missing="the draft depth is no number")
    width = ("--speculative-num-draft-tokens", str(value + 1))
    if m.value("spec.method") in ("dflash", "dspark", "ngram", "uno"):
        return Spelled(flags=(width,))
    return Spelled(flags=(("--speculative-num-steps", str(value)), ("--speculative-eagle-topk", "1"), width))


def _sglang_graphs(m: Move, value: Any) -> Spelled:
    here = _here(m)
    if here >= PHASES:
        phases = {
            "none": ("disabled", "disabled"),
            "full_decode_only": ("full", "disabled"),
            "full_and_piecewise": ("full", "breakable"),
            "piecewise": ("breakable", "breakable"),
            "full": ("full", None),
        }.get(str(value))
        if phases is None:
            return Spelled(missing=f"SGLang has no graph mode {value}")
        named = zip(("--cuda-graph-backend-decode", "--cuda-graph-backend-prefill"), phases, strict=True)
        return Spelled(flags=tuple((flag, word) for flag, word in named if word))
    if value == "none":
        return Spelled(flags=(("--disable-cuda-graph",),))
    if value == "piecewise":
        return Spelled(missing="SGLang had full graphs for decode only", first="0.5.14")
    by_default = here >= (0, 5, 10)  # graphs for prefill came in 0.5.4 and became the default in 0.5.10
    if value == "full_and_piecewise" and not by_default:
        if here < (0, 5, 4):
            return Spelled(missing="SGLang had no graphs for prefill", first="0.5.4")
        return Spelled(flags=(("--enable-piecewise-cuda-graph",),))
    if value == "full_decode_only" and by_default:
        return Spelled(flags=(("--disable-piecewise-cuda-graph",),))
    return Spelled()


def _chunked(m: Move, value: Any) -> Spelled:
    return Spelled() if value else Spelled(flags=(("--chunked-prefill-size", "-1"),))


def _served_name(m: Move, value: Any) -> Spelled:
    first = value[0] if isinstance(value, (tuple, list)) and value else value
    return Spelled(flags=(("--served-model-name", str(first)),))


# -- vLLM -------------------------------------------------------------------------------------------------------------


def _vllm_graphs(m: Move, value: Any) -> Spelled:
    setting = m.tuned.settings.get("cudagraph.mode")
    eager = m.same and setting is not None and "enforce" in setting.spelled
    if value == "none" and (eager or _here(m) < (0, 10, 2)):
        return Spelled(flags=(("--enforce-eager",),))
    return Spelled(keys={"compilation_config.cudagraph_mode": str(value).upper()})


def _reasoning(m: Move, value: Any) -> Spelled:
    # to 0.33 it is a flag of its own as well as a key of --structured-outputs-config
    found = tables.word("grammar.reasoning_parser", value, "vllm", m.version)
    if found.text is None:
        return Spelled(missing=f"vLLM {m.version} has no reasoning parser {value}", first=found.first)
    return Spelled(flags=(("--reasoning-parser", found.text),))


def _experts(m: Move, value: Any) -> Spelled:
    spread = isinstance(value, int) and value > 1
    return Spelled(flags=(("--enable-expert-parallel",),)) if spread else Spelled()


_TABLE: Mapping[tuple[str, str], Phrase] = {
    ("sglang", "spec.depth"): _depth,
    ("sglang", "cudagraph.mode"): _sglang_graphs,
    ("sglang", "sched.chunked_prefill"): _chunked,
    ("sglang", "model.served_name"): _served_name,
    ("vllm", "cudagraph.mode"): _vllm_graphs,
    ("vllm", "parallel.ep"): _experts,
    ("vllm", "grammar.reasoning_parser"): _reasoning,
}
