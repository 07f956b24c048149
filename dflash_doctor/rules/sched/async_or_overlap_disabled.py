"""Asynchronous scheduling (vLLM) or the overlap scheduler (SGLang) is off.

## What it sees
The engine says that it does not overlap scheduling with the GPU's work, by flag, environment, or because another
feature forbids it; the baseline did.

## Why it costs you
The CPU's part of a step (scheduling, sampling output, detokenising) then stands between two GPU steps: one to several
milliseconds, most felt when steps are short and batches large.

## How to confirm
Start with it on; GPU utilisation between steps rises.

## What usually did it
A speculative method or a model that is not supported by it; a lost environment variable of the newer worker
(`SGLANG_ENABLE_SPEC_V2`); structured output; pipeline parallelism; confidential computing.

## When it is wrong
Some methods never overlapped, in the tuned state either. A server bound by its GPU loses little.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import STEP
from dflash_doctor.rules.seen import new_about, proof, proofs, put_back, same_engine

OFF = ("disabled", "not compatible", "incompatible", "not support", "non-overlap", "synchronous", "off")
SWITCHES = ("env.SGLANG_ENABLE_SPEC_V2", "env.SGLANG_ENABLE_OVERLAP_PLAN_STREAM", "env.VLLM_USE_V2_MODEL_RUNNER")


def check(c: Comparison) -> Finding | None:
    now = c.now.settings.get("sched.async")
    was = c.was.settings.get("sched.async") if c.was else None
    said = [s for s in new_about(c, "scheduler_overlap_off") if any(w in s.evidence.text.lower() for w in OFF)]
    turned_off = (
        now is not None and now.value is False and now.said != "default" and (was is None or was.value is not False)
    )
    switches = c.drift(*SWITCHES)
    if not said and not turned_off:
        return None
    if c.was is not None and not same_engine(c):
        return None
    if c.was is None and not turned_off:
        return None  # many set-ups print it by design
    if was is not None and was.value is False and not said:
        return None
    # a new method or another release brings its own scheduler along: then that is what changed
    along = bool(c.drift("spec.method", "engine.version")) and "sched.async" not in c.now.asked
    return Finding(
        cause="",
        summary="scheduling no longer overlaps with the GPU's work" + (f" ({switches[0].words()})" if switches else ""),
        confidence=0.3 if along and not switches else 0.88 if switches else 0.75 if c.was else 0.4,
        severity="warning",
        evidence=(*proofs(said[:2]), *proof(now, *switches)),
        next_steps=tuple(put_back(d) for d in switches) or ("read the reason on the line above and undo it",),
        touches=(STEP,),
    )
