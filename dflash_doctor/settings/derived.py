"""Settings that several options decide together, or that one engine says another way round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dflash_doctor.model import Evidence, Said, Setting
from dflash_doctor.settings.rows import SETTINGS, bare
from dflash_doctor.settings.values import as_bool, as_int, as_sizes, word
from dflash_doctor.settings.versions import number

Found = dict[str, Setting]


def derive(
    engine: str,
    found: Found,
    flat: Mapping[str, Any],
    version: str | None,
    said: Said,
    seen: Callable[[str], Evidence | None],
) -> Found:
    """`found` with what follows from it."""

    def put(key: str, value: Any, spelled: str) -> None:
        name = bare(spelled)
        before = found.get(key)
        evidence = seen(name) if name in flat else before.evidence if before is not None else None
        found[key] = Setting(key, value, said, spelled, evidence)

    if engine == "vllm":
        _vllm(found, flat, version, put)
    elif engine == "sglang":
        _sglang(found, flat, version, put)
    return found


Put = Callable[[str, Any, str], None]


# -- vLLM -------------------------------------------------------------------------------------------------------------


def _vllm(found: Found, flat: Mapping[str, Any], version: str | None, put: Put) -> None:
    _optimization(found, version, put)
    if as_bool(flat.get("enforce_eager")):
        # wins over any --compilation-config, and turns torch.compile off as well
        put("cudagraph.mode", "none", "--enforce-eager")
        put("compile.mode", "none", "--enforce-eager")
    level = flat.get("compilation_config")
    if level is not None and not isinstance(level, Mapping):
        put("compile.mode", word(SETTINGS["compile.mode"], level), "--compilation-config")
    if "speculative_config" in flat and flat["speculative_config"] in (None, "None"):
        put("spec.method", "none", "--speculative-config")
    model = found.get("spec.draft_model")
    if model is not None and "spec.method" not in found:
        method = _method_of(str(model.value))
        if method:
            put("spec.method", method, model.spelled)
    if model is not None and str(model.value) in ("[ngram]", "ngram"):
        del found["spec.draft_model"]
    if "enable_expert_parallel" in flat:
        on = as_bool(flat["enable_expert_parallel"])
        put("parallel.ep", _world(found) if on else 1, "--enable-expert-parallel")
    size = found.get("kv.offload_gb")
    if size is not None and isinstance(size.value, float) and size.value > 0:
        put("kv.offload", True, size.spelled)
    transfer = found.get("kv.transfer")
    if transfer is not None and any(w in str(transfer.value) for w in ("Offloading", "LMCache")):
        put("kv.offload", True, transfer.spelled)


def _optimization(found: Found, version: str | None, put: Put) -> None:
    """`-O<n>`: to 0.11 a compilation level, from 0.12 a bundle; 0 and 3 mean much the same in both."""
    level = found.get("compile.optimization_level")
    if level is None:
        return
    numbers = number(version)
    old = numbers is not None and numbers < (0, 12)
    if "compile.mode" not in found and (old or str(level.value) in ("0", "3")):
        put("compile.mode", word(SETTINGS["compile.mode"], level.value), level.spelled)
    if "cudagraph.mode" not in found and not old and str(level.value) == "0":
        put("cudagraph.mode", "none", level.spelled)
    if old:
        del found["compile.optimization_level"]


def _method_of(drafter: str) -> str | None:
    """How vLLM reads the method from the drafter's name when none is given (vllm/config/speculative.py)."""
    name = drafter.lower()
    if name in ("[ngram]", "ngram"):
        return "ngram"
    for word_in_name, method in (("eagle3", "eagle3"), ("eagle-", "eagle"), ("dflash", "dflash"), ("dspark", "dspark")):
        if word_in_name in name:
            return method
    return None


def _world(found: Found) -> int:
    # vLLM spreads experts over all tensor and data parallel ranks
    sizes = [found[k].value for k in ("parallel.tp", "parallel.dp", "parallel.pcp") if k in found]
    world = 1
    for size in sizes:
        world *= size if isinstance(size, int) and 0 < size < 10**6 else 1
    return world


# -- SGLang -----------------------------------------------------------------------------------------------------------


def _sglang(found: Found, flat: Mapping[str, Any], version: str | None, put: Put) -> None:
    if flat.get("quantization") is None:
        found.pop("model.quantization", None)  # not said: a checkpoint brings its own and the argument stays None
    _chunked(found, put)
    _graphs(found, flat, version, put)
    _drafts(found, flat, put)
    backend = found.get("attention.backend")
    if backend is not None and backend.value in ("fa3", "fa4"):
        put("attention.fa_version", int(backend.value[2]), backend.spelled)
    if as_bool(flat.get("enable_ep_moe")) or as_bool(flat.get("enable_deepep_moe")):
        put("parallel.ep", found["parallel.tp"].value if "parallel.tp" in found else 1, "--enable-ep-moe")
    elif "parallel.ep" in found and isinstance(found["parallel.ep"].value, bool):
        del found["parallel.ep"]


def _chunked(found: Found, put: Put) -> None:
    chunk = found.get("sched.max_tokens")
    if chunk is None or not isinstance(chunk.value, int):
        return
    put("sched.chunked_prefill", chunk.value > 0, chunk.spelled)
    if chunk.value <= 0:
        del found["sched.max_tokens"]


def _graphs(found: Found, flat: Mapping[str, Any], version: str | None, put: Put) -> None:
    # 0.5.23: a backend for each phase; before, one switch and from 0.5.10 one for the piecewise graphs of prefill
    decode = _phase(found, flat, "decode")
    prefill = _phase(found, flat, "prefill")
    off = as_bool(flat.get("disable_cuda_graph"))
    if off:
        put("cudagraph.mode", "none", "--disable-cuda-graph")
    elif decode == "disabled":
        put("cudagraph.mode", "none", "--cuda-graph-backend-decode")
    elif decode == "full":
        put("cudagraph.mode", _mode(prefill), "--cuda-graph-backend-decode")
    elif decode == "breakable":
        put("cudagraph.mode", "piecewise", "--cuda-graph-backend-decode")
    elif off is False and "cudagraph.mode" not in found:
        numbers = number(version)
        if numbers and numbers <= (0, 5, 3):
            put("cudagraph.mode", "full_decode_only", "--disable-cuda-graph")
        elif as_bool(flat.get("disable_piecewise_cuda_graph")) is False:
            put("cudagraph.mode", "full_and_piecewise", "--disable-piecewise-cuda-graph")
    mode = found.get("cudagraph.mode")
    resolved = [k for k in found if k.startswith("other.cuda_graph_config.")]
    for key in resolved:
        del found[key]  # said in our words below
    if mode is not None and mode.value == "none":
        # the sizes it would have captured are still printed; those asked for beside it stay, as a contradiction
        for key in ("cudagraph.sizes", "cudagraph.max_size"):
            if key in found and found[key].said != "asked":
                del found[key]
        return
    sizes = as_sizes(flat.get("cuda_graph_config.decode.bs"))
    if sizes:
        put("cudagraph.sizes", sizes, "--cuda-graph-bs-decode")
    prefill_sizes = as_sizes(flat.get("cuda_graph_config.prefill.bs"))
    if prefill_sizes and prefill != "disabled":
        put("cudagraph.prefill_sizes", prefill_sizes, "--cuda-graph-bs-prefill")
    if flat.get("cuda_graph_config.decode.max_bs") is not None:
        put("cudagraph.max_size", as_int(flat["cuda_graph_config.decode.max_bs"]), "--cuda-graph-max-bs-decode")


def _phase(found: Found, flat: Mapping[str, Any], phase: str) -> str | None:
    if as_bool(flat.get(f"disable_{phase}_cuda_graph")):
        return "disabled"
    resolved = flat.get(f"cuda_graph_config.{phase}.backend")
    asked = found.get(f"cudagraph.{phase}_backend")
    return str(resolved).lower() if resolved else (str(asked.value) if asked is not None else None)


def _mode(prefill: str | None) -> str:
    if prefill is None:
        return "full"
    return "full_decode_only" if prefill == "disabled" else "full_and_piecewise"


def _drafts(found: Found, flat: Mapping[str, Any], put: Put) -> None:
    method = found.get("spec.method")
    if method is not None and str(flat.get("speculative_algorithm")).upper() == "EAGLE":
        # NEXTN is rewritten to EAGLE at start, and EAGLE without a drafter takes the target's own head
        drafter, target = flat.get("speculative_draft_model_path"), flat.get("model_path")
        if drafter in (None, "None", "", target) or "nextn" in str(drafter).lower():
            put("spec.method", "mtp", method.spelled)
    if method is None or method.value == "none":
        # resolved arguments carry the other options whether there is drafting or not
        if method is not None:
            for key in ("spec.num_steps", "spec.num_draft_tokens", "spec.topk", "spec.block_size"):
                found.pop(key, None)
        return
    depth, spelled = _depth(found)
    if depth is not None:
        put("spec.depth", depth, spelled)


def _depth(found: Found) -> tuple[int | None, str]:
    """Tokens drafted per step, the bonus token not counted; a tree counts by its depth."""
    topk = _whole(found, "spec.topk")
    steps = found.get("spec.num_steps")
    width = found.get("spec.num_draft_tokens") or found.get("spec.block_size")
    if topk is not None and topk > 1 and steps is not None and isinstance(steps.value, int):
        return steps.value, steps.spelled
    if width is not None and isinstance(width.value, int) and width.value > 0:
        return width.value - 1, width.spelled
    if steps is not None and isinstance(steps.value, int):
        return steps.value, steps.spelled
    return None, ""


def _whole(found: Found, key: str) -> int | None:
    setting = found.get(key)
    return setting.value if setting is not None and isinstance(setting.value, int) else None
