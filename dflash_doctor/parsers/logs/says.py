"""One line in which an engine says what it chose, lowered, switched off or refused -> keys and values of settings.

    Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER', 'TRITON_ATTN'].
    CUDAGraphMode.FULL is not supported with FlashInferBackend backend (…); setting cudagraph_mode=FULL_AND_PIECEWISE

The lines themselves are in data/*_log_signals.yaml; here each signal's named groups become settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Fields = Mapping[str, str]  # the named groups of the pattern
Pairs = Iterator[tuple[str, Any]]

# "Flash Attention", "FLASH_ATTN", "Triton MLA", "FlashAttention-2": prose and enum names of one backend
BACKEND_WORDS = {
    "flash attention": "flash_attn", "flashattention": "flash_attn", "flashattention-2": "flash_attn",
    "flashinfer": "flashinfer", "triton": "triton", "triton_attn": "triton", "flexattention": "flex_attention",
    "tree attention": "tree_attn", "torch sdpa": "torch_sdpa", "rocmflashattention": "rocm_flash",
    "flashattention mla": "flash_attn_mla", "flashinfer mla": "flashinfer_mla",
}  # fmt: skip


def backend(name: str) -> str:
    """The neutral name of an attention backend, whatever a log line calls it."""
    low = name.strip().lower()
    return BACKEND_WORDS.get(low) or low.replace(" ", "_").replace("-", "_")


def kv_dtype(name: str) -> str:
    """torch.float8_e4m3fn, fp8 -> fp8_e4m3."""
    low = name.lower().removeprefix("torch.").removesuffix("fn").removesuffix("fnuz")
    return {"fp8": "fp8_e4m3", "float8_e4m3": "fp8_e4m3", "float8_e5m2": "fp8_e5m2"}.get(low, low)


def _mode(name: str) -> str:
    return name.rpartition(".")[2].lower()


def _attention(f: Fields, _: str) -> Pairs:
    if "backend" in f:
        yield "attention.backend", backend(f["backend"])


def _phases(f: Fields, _: str) -> Pairs:
    if "decode" in f and "prefill" in f:
        yield "attention.decode_backend", backend(f["decode"])
        yield "attention.prefill_backend", backend(f["prefill"])


def _draft_attention(f: Fields, _: str) -> Pairs:
    if "backend" in f:
        yield "attention.draft_backend", backend(f["backend"])


def _fa(f: Fields, body: str) -> Pairs:
    got = f.get("fa") or f.get("got") or ("4" if "upgrading FlashAttention 3 -> 4" in body else None)
    if got:
        yield "attention.fa_version", int(got)


def _page_size(f: Fields, _: str) -> Pairs:
    size = f.get("bs") or f.get("to")
    if size and size.isdigit():
        yield "kv.page_size", int(size)


def _lowered(f: Fields, body: str) -> Pairs:
    # forms that name no new mode lower to PIECEWISE or say "to NONE" in words
    mode = f.get("new") or ("NONE" if "to NONE" in body else "PIECEWISE")
    yield "cudagraph.mode", _mode(mode)


def _no_graphs(f: Fields, body: str) -> Pairs:
    if "cascade attention" not in body:
        yield "cudagraph.mode", "none"


def _graph_sizes(f: Fields, _: str) -> Pairs:
    sizes = [int(n) for n in re.findall(r"\d+", f.get("bs") or f.get("b") or "")]
    if sizes:
        yield "cudagraph.sizes", tuple(sorted(set(sizes)))
        yield "cudagraph.max_size", max(sizes)
    elif f.get("max", "").isdigit():
        yield "cudagraph.max_size", int(f["max"])


def _sglang_capture(f: Fields, body: str) -> Pairs:
    if f.get("what", "").startswith("target decode") or f.get("what") == "decode":
        yield from _graph_sizes(f, body)


def _drafter_graph(f: Fields, body: str) -> Pairs:
    if f.get("ev") == "end":
        yield "cudagraph.draft_mode", "full"
    elif "eagerly" in body or "only supports cudagraph_mode PIECEWISE" in body:
        yield "cudagraph.draft_mode", "none"


def _drafter_eager(_: Fields, body: str) -> Pairs:
    if body.startswith(("Disable DFLASH draft cuda graph", "Disable DSpark draft cuda graph", "can't use cuda graph")):
        yield "cudagraph.draft_mode", "none"


def _no_compile(_: Fields, body: str) -> Pairs:
    if "does not support it" in body or "disabling" in body:
        yield "compile.mode", "none"


def _proposer(f: Fields, _: str) -> Pairs:
    name = f.get("proposer", "").lower()
    for word, method in (
        ("ngram", "ngram"),
        ("medusa", "medusa"),
        ("mlp", "mlp_speculator"),
        ("multi_step", "draft_model"),
    ):
        if word in name:
            yield "spec.method", method
            return


def _drafter_init(f: Fields, _: str) -> Pairs:
    if "backend" in f:
        yield "attention.draft_backend", backend(f["backend"])
    if "block" in f:
        yield "spec.depth", int(f["block"]) - 1
    elif "gamma" in f:
        yield "spec.depth", int(f["gamma"])


def _overlap(_: Fields, body: str) -> Pairs:
    if body.startswith(("Overlap scheduler is disabled", "The overlap scheduler and mixed", "Non-overlap")):
        yield "sched.async", False
    elif "overlap schedule is turned on" in body:
        yield "sched.async", True


def _async(f: Fields, body: str) -> Pairs:
    if "state" in f:
        yield "sched.async", f["state"] == "enabled"
    elif ("disabled" in body or body.startswith("Disabling asynchronous")) and "custom scheduler" not in body:
        yield "sched.async", False


def _chunked(f: Fields, body: str) -> Pairs:
    if body.startswith("Chunked prefill is enabled") and "n" in f:
        yield "sched.chunked_prefill", True
        yield "sched.max_tokens", int(f["n"])
    elif body.startswith(("Disabling chunked prefill", "Automatically turn off", "Chunked prefill is disabled")):
        yield "sched.chunked_prefill", False
    elif "chunked prefill size is adjusted" in body and "b" in f:
        yield "sched.max_tokens", int(f["b"])


def _prefix(_: Fields, body: str) -> Pairs:
    if body.startswith(("Disabling prefix caching", "(Disabling) prefix caching")):
        yield "sched.prefix_cache", False
    elif body.startswith("(Enabling) prefix caching"):
        yield "sched.prefix_cache", True


def _no_radix(_: Fields, body: str) -> Pairs:
    if "is turned on" not in body:
        yield "sched.prefix_cache", False


def _limits(f: Fields, _: str) -> Pairs:
    chunk = int(f.get("chunk", "0"))
    if chunk > 0:
        yield "sched.max_tokens", chunk
    if "chunk" in f:
        yield "sched.chunked_prefill", chunk > 0
    if "max_req" in f:
        yield "sched.max_seqs", int(f["max_req"])
    if "ctx" in f:
        yield "mem.max_context", int(f["ctx"])


def _fewer_requests(f: Fields, _: str) -> Pairs:
    limit = f.get("n") or f.get("b")
    if limit:
        yield "sched.max_seqs", int(limit)


def _context(f: Fields, _: str) -> Pairs:
    length = f.get("fit") or f.get("max_model_len")
    if length:
        yield "mem.max_context", int(length)


def _kv(f: Fields, _: str) -> Pairs:
    if f.get("dtype") and f.get("name", "KV Cache").startswith("KV"):
        yield "kv.dtype", kv_dtype(f["dtype"])


def _kv_asked(f: Fields, body: str) -> Pairs:
    if body.startswith("Using ") and "dtype" in f:
        yield "kv.dtype", kv_dtype(f["dtype"])


def _weights(f: Fields, _: str) -> Pairs:
    if f.get("dtype"):
        yield "model.dtype", f["dtype"].removeprefix("torch.")
    if f.get("cls"):
        yield "model.architecture", f["cls"]
    if f.get("quant"):
        yield "model.quantization", f["quant"].removeprefix("quant=").partition(",")[0]


def _cast(f: Fields, _: str) -> Pairs:
    to = f.get("to") or f.get("b")
    if to and to.startswith("torch."):
        yield "model.dtype", to.removeprefix("torch.")


def _moe(f: Fields, _: str) -> Pairs:
    name = f.get("backend") or f.get("runner") or f.get("cls") or f.get("k")
    if name and not f.get("v", "").startswith("SPECULATIVE"):
        yield "moe.backend", name.lower().replace(" ", "_")


def _moe_runner(f: Fields, body: str) -> Pairs:
    if "runner" in f or (f.get("v") == "MOE_RUNNER_BACKEND" and "k" in f and f["k"] != "auto"):
        yield from _moe(f, body)


def _kernel(f: Fields, _: str) -> Pairs:
    if "kernel" in f:
        yield "quant.kernel", f["kernel"].lower()


def _no_custom_allreduce(_: Fields, body: str) -> Pairs:
    if not body.startswith(
        "Disabled the custom all-reduce kernel"
    ):  # said on every CPU, where there is nothing to lose
        yield "comm.custom_allreduce", False


def _allreduce_order(f: Fields, _: str) -> Pairs:
    if f.get("group", "").startswith("tp"):
        yield "comm.custom_allreduce", "CustomAllreduce" in f.get("enabled", "")


def _flashinfer_allreduce(_: Fields, body: str) -> Pairs:
    low = body.lower()
    if "enabled and workspace initialized" in low or low.startswith(
        ("initialized flashinfer", "flashinfer workspace init")
    ):
        yield "comm.flashinfer_allreduce", True
    elif any(w in low for w in ("disabl", "failed", "falling back to standard", "skipping")):
        yield "comm.flashinfer_allreduce", False


def _symmetric(f: Fields, body: str) -> Pairs:
    if "why" in f or "err" in f or "not supported" in body:
        yield "comm.symm_mem", False


def _sampling(_: Fields, body: str) -> Pairs:
    yield "sampling.backend", "flashinfer" if body.startswith("Using FlashInfer") else "pytorch"


def _fraction(f: Fields, _: str) -> Pairs:
    value = f.get("a") or f.get("c") or f.get("d")
    if value:
        yield "mem.fraction", float(value)


def _one(key: str, group: str, cast: Callable[[str], Any] = str) -> Callable[[Fields, str], Pairs]:
    def say(f: Fields, _: str) -> Pairs:
        if f.get(group):
            yield key, cast(f[group])

    return say


def _always(key: str, value: Any) -> Callable[[Fields, str], Pairs]:
    def say(_f: Fields, _b: str) -> Pairs:
        yield key, value

    return say


SAYS: Mapping[str, Callable[[Fields, str], Pairs]] = {
    "api.servers": _one("host.api_servers", "n", int),
    "attn.backend": _attention,
    "attn.block_size": _page_size,
    "attn.block_size_precludes": _attention,
    "attn.draft_backend": _draft_attention,
    "attn.fa_fallback": _fa,
    "attn.fa_version": _fa,
    "attn.fallback": _attention,
    "attn.forced": _attention,
    "attn.hybrid": _phases,
    "attn.page_size": _page_size,
    "cache.radix_off": _no_radix,
    "comm.ar_backends": _allreduce_order,
    "comm.custom_ar_active": _always("comm.custom_allreduce", True),
    "comm.custom_ar_disabled": _no_custom_allreduce,
    "comm.flashinfer_ar": _flashinfer_allreduce,
    "comm.flashinfer_fusion": _flashinfer_allreduce,
    "comm.graph_registered": _always("comm.custom_allreduce", True),
    "comm.nccl_version": _one("comm.nccl_version", "version"),
    "comm.symm_mem": _symmetric,
    "compile.off": _no_compile,
    "dtype.cast": _cast,
    "engine.arch": _one("model.architecture", "arch"),
    "engine.capacity": _limits,
    "engine.max_model_len": _context,
    "engine.max_running_reduced": _fewer_requests,
    "engine.model_banner": _one("model.path", "model"),
    "graph.capture": _sglang_capture,
    "graph.capture_skipped": _no_graphs,
    "graph.disabled": _no_graphs,
    "graph.disabled_feature": _no_graphs,
    "graph.drafter": _drafter_graph,
    "graph.drafter_eager": _drafter_eager,
    "graph.eager": _no_graphs,
    "graph.mode_downgraded": _lowered,
    "graph.sizes": _graph_sizes,
    "host.omp_binding": _one("env.VLLM_CPU_OMP_THREADS_BIND", "bind"),
    "kv.dtype": _kv,
    "kv.mem_fraction": _fraction,
    "kv.size": _kv,
    "mem.load_begin": _one("model.path", "model"),
    "mem.weights": _weights,
    "moe.backend": _moe,
    "moe.runner": _moe_runner,
    "prefix.mamba_mode": _one("attention.mamba_cache_mode", "mode"),
    "prefix.state": _prefix,
    "quant.detected": _cast,
    "quant.kernel_selected": _kernel,
    "quant.kv_cache": _kv_asked,
    "sampling.flashinfer": _sampling,
    "sched.async": _async,
    "sched.chunked_prefill": _chunked,
    "sched.mixed_chunk": _chunked,
    "sched.overlap_off": _always("sched.async", False),
    "spec.draft_tp_forced": _always("spec.draft_tp", 1),
    "spec.drafter_init": _drafter_init,
    "spec.drafter_loading": _proposer,
    "spec.overlap": _overlap,
    "stats.disabled": _always("obs.stats", False),
}
