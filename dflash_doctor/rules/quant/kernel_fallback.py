"""A slower quantised kernel runs than this hardware supports.

## What it sees
The engine says that it emulates, dequantises, pads, or takes a weight-only kernel (Marlin) or Triton where a native one
is meant; or the kernel it chose differs from the baseline's.

## Why it costs you
Weight-only kernels read few bytes but compute in 16 bit: equal at one request, slower at batch and in prefill.
Emulation and default tiles are slower everywhere.

## How to confirm
Read the `Using … for …` lines of both starts; the tuned one names the native kernel.

## What usually did it
A package that is missing (DeepGEMM, FlashInfer); an environment variable that this build does not read; a dtype the
native kernel does not take; an image built for another GPU.

## When it is wrong
On GPUs without FP8 or FP4 units weight-only is the right choice, and the tuned server used it as well.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding, Signal
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.seen import new, new_about, proof, proofs

WEAK = ("marlin", "emulation", "dequant", "unquantized", "wna16")
STRONG = (
    "quant.emulation_slow",
    "quant.marlin_fp8_emulation",
    "quant.layer_fallback",
    "quant.kernel_fallback",
    "moe.mxfp4_flashinfer_missing",
)


def check(c: Comparison) -> Finding | None:
    said: list[Signal] = [
        s
        for s in new_about(c, "quant_kernel_fallback", "gemm_untuned")
        if s.level in ("WARNING", "ERROR") or s.id in STRONG
    ]
    weaker = [d for d in c.drift("moe.backend") if d.was and d.now and _weaker(str(d.was.value), str(d.now.value))]
    changed = [*weaker, *(d for d in c.drift("quant.kernel", "quant.linear_backend") if d.was and d.now)]
    unread = [
        s
        for s in new(c, "engine.unknown_env", "deprecated.flag")
        if any(w in s.evidence.text.upper() for w in ("FP4", "FP8", "GEMM", "MARLIN", "MOE"))
    ]
    if not said and not changed:
        return None
    if said and not changed and c.was is not None and not c.was.signals and not c.slower:
        return None  # the tuned side shows no log: it may have said the same, and nothing got slower
    strong = [s for s in said if s.id in STRONG]
    meant = _deepgemm_meant(c) if said and not strong else None
    confidence = (
        0.45
        + 0.2 * bool(strong)
        + 0.15 * bool(changed)
        + 0.25 * bool(weaker)
        + 0.1 * bool(unread)
        + 0.1 * (c.was is not None and bool(strong))
        + 0.15 * bool(meant)
    )
    words = changed[0].words() if changed else meant or _body((strong or said)[0])
    return Finding(
        cause="",
        summary=f"a slower quantised kernel runs: {words}",
        confidence=min(confidence, 0.95),
        severity="warning",
        evidence=(*proofs((strong or said)[:3]), *proofs(unread[:1]), *proof(*changed)),
        effects=("moe.backend_changed",),
        next_steps=(
            "read why on the line above: a missing package, a dtype, an unknown variable",
            "use the image or dtype for which the native kernel exists",
        ),
        touches=(STEP, PREFILL),
    )


def _deepgemm_meant(c: Comparison) -> str | None:
    """Words for block-FP8 layers that run Triton tiles although DeepGEMM is on and this GPU has it; None else."""
    triton = c.now.find("quant.block_config_missing", "quant.block_config_used")
    wanted = c.now.find("quant.deepgemm") or str(c.now.value("env.SGLANG_ENABLE_JIT_DEEPGEMM", "")) in ("1", "true")
    wanted = wanted or any("deepgemm" in s.evidence.text.lower() for s in c.now.find("compile.*"))
    if not triton or not wanted:
        return None
    half = c.now.value("model.dtype") == "float16"
    return "block-FP8 layers run the Triton kernel although DeepGEMM is on" + (
        " (float16 activations are not for it: serve in bfloat16)" if half else ""
    )


def _weaker(was: str, now: str) -> bool:
    """Whether a native low-precision kernel gave way to a weight-only, emulated or generic one."""
    return any(w in now.lower() for w in WEAK) and not any(w in was.lower() for w in WEAK)


def _body(s: Signal) -> str:
    text = s.evidence.text.split("] ", 1)[-1].strip()
    return text if len(text) <= 140 else text[:137] + "…"
