"""SGLang -> vLLM -> SGLang keeps every portable concept, whatever the releases."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from dflash_doctor import settings
from dflash_doctor.model import Setting, Snapshot
from dflash_doctor.port import FORMS, Launch, port, show, written
from dflash_doctor.port.snippets import argv
from dflash_doctor.settings import alike

SGLANG = ("0.4.10", "0.5.3", "0.5.6", "0.5.10", "0.5.12", "0.5.16", "0.5.23")
VLLM = ("0.11.0", "0.13.0", "0.16.0", "0.20.1", "0.27.1", "0.33.0")


def snapshot(engine: str, version: str, asked: dict[str, Setting]) -> Snapshot:
    known = {s.key: s for s in settings.defaults(engine, version)}
    return Snapshot("tuned", engine, version, settings={**known, **asked}, asked=asked)


def launched(launch: Launch) -> Snapshot:
    """What a server started so would be asked for."""
    words = argv(launch)[2 if launch.engine == "vllm" else 3 :]
    found = settings.from_flags(launch.engine, words, launch.version)
    found += settings.from_environ(launch.engine, launch.env, launch.version)
    return snapshot(launch.engine, launch.version, {s.key: s for s in found})


def tuned(version: str, words: list[str], env: dict[str, str] | None = None) -> Snapshot:
    found = settings.from_flags("sglang", ["--model-path", "/models/m", *words], version)
    found += settings.from_environ("sglang", env or {}, version)
    return snapshot("sglang", version, {s.key: s for s in found})


def around(was: Snapshot, through: str) -> Snapshot:
    """There and back again."""
    there = launched(port(was, "vllm", through).launch)
    return launched(port(there, "sglang", was.version).launch)


# -- one concept at a time --------------------------------------------------------------------------------------------

small = st.integers(1, 8)
sizes = st.lists(st.integers(1, 128), min_size=1, max_size=6, unique=True).map(sorted)
FLAGS: dict[str, st.SearchStrategy[list[str]]] = {
    "model.dtype": st.sampled_from([["--dtype", d] for d in ("float16", "bfloat16", "float32")]),
    "model.quantization": st.sampled_from([["--quantization", q] for q in ("fp8", "awq", "gptq_marlin", "moe_wna16")]),
    "parallel.tp": small.map(lambda n: ["--tp-size", str(n)]),
    "parallel.pp": small.map(lambda n: ["--pp-size", str(n)]),
    "parallel.dp": small.map(lambda n: ["--dp-size", str(n)]),
    "parallel.nodes": small.map(lambda n: ["--nnodes", str(n)]),
    "mem.max_context": st.integers(512, 10**6).map(lambda n: ["--context-length", str(n)]),
    "mem.cpu_offload_gb": st.integers(1, 64).map(lambda n: ["--cpu-offload-gb", str(n)]),
    "mem.fraction": st.integers(40, 89).map(lambda n: ["--mem-fraction-static", f"0.{n}"]),
    "mem.kv_tokens": st.integers(1, 10**5).map(lambda n: ["--max-total-tokens", str(n * 128)]),
    "kv.dtype": st.sampled_from([["--kv-cache-dtype", d] for d in ("fp8_e4m3", "fp8_e5m2")]),
    "kv.page_size": st.sampled_from([["--page-size", n] for n in ("16", "32", "64", "128")]),
    "sched.max_seqs": st.integers(1, 512).map(lambda n: ["--max-running-requests", str(n)]),
    "sched.max_tokens": st.integers(8192, 131072).map(lambda n: ["--chunked-prefill-size", str(n)]),
    "sched.chunked_prefill": st.just(["--chunked-prefill-size", "-1"]),
    "sched.prefix_cache": st.just(["--disable-radix-cache"]),
    "sched.async": st.just(["--disable-overlap-schedule"]),
    "attention.backend": st.sampled_from([["--attention-backend", b] for b in ("flashinfer", "triton", "fa3")]),
    "cudagraph.mode": st.just(["--disable-cuda-graph"]),
    "cudagraph.max_size": st.integers(1, 512).map(lambda n: ["--cuda-graph-max-bs", str(n)]),
    "cudagraph.sizes": sizes.map(lambda ns: ["--cuda-graph-bs", *map(str, ns)]),
    "comm.custom_allreduce": st.just(["--disable-custom-all-reduce"]),
    "sampling.backend": st.sampled_from([["--sampling-backend", b] for b in ("flashinfer", "pytorch")]),
    "grammar.backend": st.sampled_from([["--grammar-backend", b] for b in ("xgrammar", "llguidance", "outlines")]),
    "model.seed": st.integers(0, 2**31).map(lambda n: ["--random-seed", str(n)]),
    "model.trust_remote_code": st.just(["--trust-remote-code"]),
    "obs.request_log": st.just(["--log-requests"]),
    "lora.max_rank": st.sampled_from([["--max-lora-rank", n] for n in ("16", "64")]),
}
# flags of releases before 0.5.14; later ones have a name for each phase
RENAMED = {"--cuda-graph-max-bs": "--cuda-graph-max-bs-decode", "--cuda-graph-bs": "--cuda-graph-bs-decode"}


def of(version: str, words: list[str]) -> list[str]:
    """The words as this release of SGLang spells them."""
    later = version in ("0.5.16", "0.5.23")
    if later and words == ["--disable-cuda-graph"]:
        return ["--cuda-graph-backend-decode", "disabled", "--cuda-graph-backend-prefill", "disabled"]
    return [RENAMED.get(w, w) if later else w for w in words]


@st.composite
def drafts(draw: st.DrawFn, version: str) -> list[str]:
    """A chain of drafts, by any method both engines have."""
    k = draw(st.integers(1, 15))
    methods = ["EAGLE3", "NEXTN", *(["STANDALONE", "NGRAM"] if version >= "0.5.3" else [])]
    late = version in ("0.5.12", "0.5.16", "0.5.23")
    method = draw(st.sampled_from([*methods, *(["DFLASH"] if late else [])]))
    words = ["--speculative-algorithm", method]
    if method not in ("NEXTN", "NGRAM"):
        words += ["--speculative-draft-model-path", "/models/drafter"]
    if method not in ("DFLASH", "NGRAM"):
        words += ["--speculative-num-steps", str(k), "--speculative-eagle-topk", "1"]
    return [*words, "--speculative-num-draft-tokens", str(k + 1)]


@st.composite
def setups(draw: st.DrawFn) -> tuple[str, list[str]]:
    version = draw(st.sampled_from(SGLANG))
    keys = draw(st.lists(st.sampled_from(sorted(FLAGS)), max_size=9, unique=True))
    exclusive = {"sched.max_tokens": "sched.chunked_prefill", "cudagraph.mode": "cudagraph.max_size"}
    keys = [k for k in keys if not (k in exclusive and exclusive[k] in keys)]
    if "cudagraph.mode" in keys:
        keys = [k for k in keys if not k.startswith("cudagraph.") or k == "cudagraph.mode"]
    words = [w for k in keys for w in of(version, draw(FLAGS[k]))]
    if draw(st.booleans()):
        words += draw(drafts(version))
    return version, words


KEPT = (*FLAGS, "spec.method", "spec.draft_model", "spec.depth", "parallel.dp_attention")


@effort(deadline=None, max_examples=200)  # the first example reads the map
@given(setups(), st.sampled_from(VLLM))
def test_there_and_back_keeps_every_portable_concept(setup: tuple[str, list[str]], through: str):
    version, words = setup
    was = tuned(version, words)
    there = port(was, "vllm", through)
    back = around(was, through)
    lost = {r.key for r in there.rows if r.status in ("no equivalent", "needs version")}
    lost |= {"spec.draft_model", "spec.depth"} if "spec.method" in lost else set()
    for key in KEPT:
        setting = was.asked.get(key)
        if setting is not None and key not in lost:
            assert same(key, setting.value, back.value(key)), (key, setting.value, back.value(key), argv(there.launch))


def same(key: str, was: Any, now: Any) -> bool:
    if isinstance(was, float) and isinstance(now, float):
        return abs(was - now) < 0.006  # a share is written with two digits
    return alike(key, was, now) and (was == now or now is not None)


# -- the other way, and anything at all -------------------------------------------------------------------------------

BACK = {
    "parallel.tp": ["--tensor-parallel-size", "4"],
    "parallel.pp": ["--pipeline-parallel-size", "2"],
    "mem.max_context": ["--max-model-len", "8192"],
    "mem.fraction": ["--gpu-memory-utilization", "0.85"],
    "mem.kv_blocks": ["--num-gpu-blocks-override", "4096"],
    "kv.dtype": ["--kv-cache-dtype", "fp8_e4m3"],
    "kv.page_size": ["--block-size", "32"],
    "kv.offload_gb": ["--kv-offloading-size", "64"],
    "sched.max_seqs": ["--max-num-seqs", "64"],
    "sched.max_tokens": ["--max-num-batched-tokens", "16384"],
    "sched.prefix_cache": ["--no-enable-prefix-caching"],
    "sched.async": ["--no-async-scheduling"],
    "sched.policy": ["--scheduling-policy", "priority"],
    "cudagraph.max_size": ["--max-cudagraph-capture-size", "256"],
    "attention.backend": ["--attention-backend", "TRITON_ATTN"],
    "model.quantization": ["--quantization", "fp8"],
    "moe.backend": ["--moe-backend", "triton"],
    "comm.custom_allreduce": ["--disable-custom-all-reduce"],
    "serve.tool_call_parser": ["--tool-call-parser", "deepseek_v3"],
    "grammar.reasoning_parser": ["--reasoning-parser", "deepseek_r1"],
    "spec.depth": ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}'],
}


@effort(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(sorted(BACK)), unique=True), st.sampled_from(("0.5.10", "0.5.16", "0.5.23")))
def test_vllm_there_and_back_keeps_every_portable_concept(keys: list[str], through: str):
    words = [w for k in keys for w in BACK[k]]
    found = settings.from_flags("vllm", ["/models/m", *words], "0.33.0")
    was = snapshot("vllm", "0.33.0", {s.key: s for s in found})
    there = port(was, "sglang", through)
    back = launched(port(launched(there.launch), "vllm", "0.33.0").launch)
    lost = {r.key for r in there.rows if r.status in ("no equivalent", "needs version")}
    for key in (*keys, "spec.method"):
        setting = was.asked.get(key)
        if setting is not None and key not in lost:
            assert same(key, setting.value, back.value(key)), (key, setting.value, back.value(key), argv(there.launch))


ODD = st.sampled_from(
    ["", "0", "-1", "none", "auto", "x", "1e9", "{}", "[1]", '{"a"', "9" * 30, "true", "\x1b[2J", "a b"]
)
ANY = st.sampled_from(sorted(f for row in settings.SETTINGS.values() for s in row.sglang for f in (s.flag,) if f))


@effort(deadline=None, max_examples=100)
@given(st.lists(st.tuples(ANY, ODD), max_size=12), st.sampled_from(("vllm", "sglang")), st.sampled_from(SGLANG))
def test_whatever_was_typed_is_ported_without_a_traceback_and_reads_back(pairs: list[Any], to: str, version: str):
    was = tuned(version, [w for pair in pairs for w in pair])
    p = port(was, to)
    show.terminal(p)
    show.markdown(p)
    show.as_json(p)
    for form in FORMS:
        written(p.launch, form)
    launched(p.launch)
