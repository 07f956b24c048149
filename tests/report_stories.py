"""Diagnoses made by hand, for the tests of the reports: one story each, as the other stages would hand them over."""

from __future__ import annotations

from dataclasses import replace

from dflash_doctor.model import (
    Comparison,
    Delta,
    Diagnosis,
    Drift,
    Evidence,
    Finding,
    Gap,
    Impact,
    Part,
    Sample,
    Setting,
    Signal,
    Slowdown,
    Snapshot,
)

SPEC_LINE = (
    "(APIServer pid=2101) INFO 05-06 10:15:27 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 1.17, "
    "Accepted throughput: 2.50 tokens/s, Drafted throughput: 226.50 tokens/s, Accepted: 25 tokens, Drafted: 2265 "
    "tokens, Per-position acceptance rate: 0.119, 0.033, 0.007, 0.007, 0.000, 0.000, 0.000, 0.000, 0.000, 0.000, "
    "0.000, 0.000, 0.000, 0.000, 0.000, Avg Draft acceptance rate: 1.1%"
)
WARNING_LINE = "(APIServer pid=2101) WARNING 05-06 10:02:20 [model.py:1801] Casting torch.float32 to torch.bfloat16."
BACKEND_LINE = (
    "(Worker_TP0 pid=2251) INFO 05-06 10:02:48 [cuda.py:318] Using FLASH_ATTN attention backend out of potential "
    "backends: ['FLASH_ATTN', 'FLASHINFER', 'TRITON_ATTN', 'FLEX_ATTENTION']."
)
FLAG_LINE = (
    "vllm serve /models/Qwen3.6-27B --tensor-parallel-size 2 --max-model-len 32768 --gpu-memory-utilization 0.90 "
    "--attention-backend flash_attn --max-num-batched-tokens 32768 --trust-remote-code --speculative-config "
    '\'{"method":"dflash","model":"/models/Qwen3.6-27B-DFlash","num_speculative_tokens":15}\' --port 8000'
)


def _set(key, value, spelled="", evidence=None):
    return Setting(key, value, "asked", spelled, evidence)


def _drift(key, was, now):
    return Drift(key, None if was is None else _set(key, was), None if now is None else _set(key, now))


def _accepted(value):
    return Sample("accept_length", value, concurrency=1.0)


def a6000() -> Diagnosis:
    """The tuned SGLang server with MTP was replaced by vLLM with a DFlash drafter that is still in training."""
    drifts = (
        _drift("spec.method", "mtp", "dflash"),
        _drift("attention.backend", "flashinfer", "flash_attn"),
        _drift("spec.depth", 3, 15),
        _drift("spec.draft_model", None, "/models/Qwen3.6-27B-DFlash"),
        _drift("cudagraph.sizes", (1, 2, 4, 8, 12, 16), (1, 2, 4, 8, 16, 32, 48, 64)),
        _drift("mem.fraction", 0.85, 0.9),
        _drift("sched.async", True, None),
        _drift("engine.engine", "sglang", "vllm"),
        _drift("engine.version", "0.5.10", "0.20.1"),
        _drift("comm.nccl_version", "2.27.5", "2.28.9"),
        _drift("sched.max_tokens", None, 32768),
    )
    was = Snapshot("gpu-a", "sglang", "0.5.10", samples=(_accepted(3.2),), sources=("server.log",))
    now = Snapshot(
        "gpu-a", "vllm", "0.20.1", "2026-05-06T10:20:00Z",
        settings={f"k{i}": _set(f"k{i}", i) for i in range(34)},
        samples=(_accepted(1.17),),
        sources=("capture.yaml", "cmdline", "environ", "load.yaml", "packages.txt", "server.log"),
    )  # fmt: skip
    deltas = (
        Delta(
            "output_tok_s",
            73.5,
            17.7,
            "worse",
            "chat",
            1.0,
            0.2408,
            note="one value against one: under 20% says nothing",
        ),
        Delta("accept_length", 3.2, 1.17, "worse", None, 1.0, 0.3656),
        Delta("kv_tokens", 221184.0, 218112.0, "same", factor=0.986),
        Delta("ttft_ms", 62.0, 71.0, "unsure", "chat", 1.0, 0.873),
    )
    return Diagnosis(
        target="gpu-a",
        verdict="regressed",
        comparison=Comparison(
            now, was, "baseline", deltas, drifts,
            fresh=(
                Signal(
                    "unknown",
                    Evidence("server.log", WARNING_LINE, 14),
                    "WARNING",
                    count=2,
                ),
            ),
        ),
        findings=(
            Finding(
                "spec.drafter_undertrained",
                "the drafter guesses badly from the first position on (1.17 tokens per step, first position 12%, 15 "
                "drafted), and smoothly so: it is poor, not miswired",
                0.72, "critical", Impact(0.3656),
                (Evidence("server.log", SPEC_LINE, 24), Evidence("cmdline", FLAG_LINE)),
                effects=("spec.acceptance_collapse",),
                next_steps=(
                    "speculation pays only while a drafted step costs less than 1.17 plain ones; turn it off and "
                    "compare",
                    "try speculation by mtp as tuned",
                    "vllm serve /models/Qwen3.6-27B --tensor-parallel-size 2 --speculative-config "
                    '\'{"method":"mtp","num_speculative_tokens":3}\' --port 8000',
                    "read on the drafter's model card whether it is still in training",
                ),
                touches=("tokens per step",),
            ),
            Finding(
                "spec.method_changed",
                "speculation runs by dflash (1.17 tokens per step, first position 12%, 15 drafted); tuned was mtp "
                "(3.20 tokens per step, 3 drafted)",
                0.55, "warning", Impact(0.3656, bound=True),
                (Evidence("cmdline", FLAG_LINE), Evidence("server.log", SPEC_LINE, 24)),
                next_steps=("put speculation by mtp back with 3 drafted tokens",),
                touches=("tokens per step", "step time"),
            ),
            Finding(
                "attention.backend_changed",
                "attention runs on flash_attn; tuned was flashinfer",
                0.3, "info", None,
                (Evidence("server.log", BACKEND_LINE, 17),),
                against=("another engine has another default",),
                next_steps=("put --attention-backend back to flashinfer",),
                touches=("step time",),
            ),
        ),
        slowdown=Slowdown(
            "output_tok_s", 73.5, 17.7, 0.2408, "chat", 1.0,
            parts=(
                Part("tokens per step", 0.3656, "spec.drafter_undertrained"),
                Part("step time", 0.6586, None, note="what is left after tokens per step"),
            ),
            note="one value against one: under 20% says nothing",
        ),
        gaps=(
            Gap("gpu", "no GPU counters in this capture: clocks, power and neighbours were not looked at"),
            Gap("metrics.prom", "not in this capture"),
        ),
        baseline="qwen3.6-27b.a6000x2.sglang-mtp",
        baseline_why="named on the command line",
        taken_at="2026-05-06T10:20:00Z",
    )  # fmt: skip


def healthy() -> Diagnosis:
    """As it was tuned."""
    now = replace(a6000().now, samples=())
    deltas = (Delta("output_tok_s", 73.5, 73.2, "same", "chat", 1.0, 0.996), *_same(11))
    return Diagnosis(
        target="gpu-a",
        verdict="healthy",
        comparison=Comparison(now, now, "baseline", deltas),
        slowdown=Slowdown("output_tok_s", 73.5, 73.2, 0.996, "chat", 1.0, parts=(Part("step time", 0.996),)),
        gaps=(Gap("gpu", "driver 535 does not report clock reasons"), Gap("dmesg.txt", "reading needs root")),
        baseline="qwen3.6-27b.a6000x2.vllm-mtp",
        taken_at="2026-05-06T10:20:00Z",
    )


def _same(n):
    return tuple(Delta("ttft_ms", 60.0, 60.0, "same", "chat", float(2 + i)) for i in range(n))


def not_comparable() -> Diagnosis:
    """Longer answers were asked for than in the baseline."""
    base = healthy()
    return replace(
        base,
        verdict="not_comparable",
        slowdown=None,
        comparison=replace(base.comparison, deltas=()),
        findings=(
            Finding(
                "workload.changed", "the load is not the baseline's (output_tokens: 256 -> 2048)", 0.75,
                evidence=(Evidence("load.yaml", "- {workload: chat, concurrency: 1, output_tokens: 2048}", 1),),
                next_steps=("dflash-doctor diagnose gpu-a --baseline qwen3.6-27b.a6000x2.vllm-mtp",),
            ),
        ),
    )  # fmt: skip


def inconclusive() -> Diagnosis:
    """Nothing but a log without a number."""
    now = Snapshot("server.log", "vllm", None, sources=("server.log",))
    gap = Gap("numbers", "no speed of this server was measured or logged: nothing to hold against the baseline")
    return Diagnosis("server.log", "inconclusive", Comparison(now, now, "baseline"), gaps=(gap,), baseline="b")


HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J[red]cheap[/red]\u202egnp.exe\x00 ```\n"
    "</details><script>alert(1)</script> | `x` :boom: \x9b31m"
)


def hostile() -> Diagnosis:
    """Every text that a host can choose says something nasty."""
    s = Snapshot(HOSTILE, HOSTILE, HOSTILE, HOSTILE, sources=(HOSTILE,))
    line = Evidence(HOSTILE, HOSTILE, 7)
    return Diagnosis(
        target=HOSTILE,
        verdict="regressed",
        comparison=Comparison(
            s, replace(s, published=True), "baseline",
            deltas=(Delta("output_tok_s", 70.0, 35.0, "worse", HOSTILE, 1.0, 0.5, note=HOSTILE),),
            drifts=(_drift(HOSTILE, HOSTILE, (HOSTILE, True)),),
            fresh=(Signal("unknown", replace(line, line=9), "ERROR"),),
        ),
        findings=(
            Finding("spec.not_active", HOSTILE, 0.9, "critical", Impact(0.5), (line,), *[(HOSTILE,)] * 3),
            Finding("gpu.power_cap", HOSTILE, 0.3, "info", None, (line,), (HOSTILE,), (), (HOSTILE,)),
        ),
        slowdown=Slowdown(
            "output_tok_s", 70.0, 35.0, 0.5, HOSTILE, 1.0,
            parts=(Part(HOSTILE, 0.5, note=HOSTILE), Part("step time", 1.0)), note=HOSTILE,
        ),
        gaps=(Gap(HOSTILE, HOSTILE),),
        baseline=HOSTILE,
        baseline_why=HOSTILE,
        taken_at=HOSTILE,
        notes=(HOSTILE,),
    )  # fmt: skip
