"""CUDA graph capture was tried and failed or was cut short.

## What it sees
The start ends, or gives up graphs, during capture: out of memory after the capture bar began, an error of capture, or
the engine's word that it skipped it.

## Why it costs you
Either the server does not start, or some batch sizes run eager and pay their launches one by one.

## How to confirm
The last lines before the error are the capture bar's. Lower the memory fraction by one point and start again.

## What usually did it
A memory fraction so high that the KV cache took what capture needs; many or large sizes; a drafter's own graphs; an
operation that cannot be captured.

## When it is wrong
Out of memory before capture begins (weights, profiling) is another fault. Eager mode starts, but costs speed for good:
it is no cure.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding, Signal
from dflash_doctor.physics import STEP
from dflash_doctor.rules.seen import new, proof, proofs


def check(c: Comparison) -> Finding | None:
    failed = [*new(c, "graph.capture_failed"), *_skipped(c)]
    memory = _out_of_memory(c)
    if not failed and not memory:
        return None
    fraction = c.now.settings.get("mem.fraction")
    died = c.now.served is False
    step = "lower the memory fraction by 0.01 to 0.03 (--gpu-memory-utilization / --mem-fraction-static)"
    return Finding(
        cause="",
        summary="CUDA graph capture failed"
        + (" for want of memory" if memory else "")
        + (f" at a memory fraction of {fraction.value}" if memory and fraction else "")
        + ("; the server does not start" if died else ""),
        confidence=0.9 if died else 0.75,
        severity="critical" if died else "warning",
        evidence=(
            *proofs((*failed, *memory)[:4]),
            *proofs(c.now.find("graph.capture_progress")[-1:]),
            *proof(fraction),
        ),
        effects=("server.failing",) if died else (),
        next_steps=(
            step if memory else "read the error above; capture fewer or other sizes",
            "do not switch graphs off: that costs speed for good",
        ),
        touches=(STEP,),
    )


def _skipped(c: Comparison) -> list[Signal]:
    # skipping by request is eager mode, which is another fault
    asked = c.now.asked.get("cudagraph.mode")
    if asked is not None and asked.value == "none":
        return []
    return [s for s in new(c, "graph.capture_skipped") if s.level in ("WARNING", "ERROR")]


def _out_of_memory(c: Comparison) -> list[Signal]:
    """Out-of-memory errors that come after capture began and before it was done."""
    began = [_at(s) for s in c.now.find("graph.capture_progress", "graph.capture", "graph.drafter")]
    done = c.now.find("graph.capture_done", "engine.ready")
    if not began or (done and c.now.served is not False):
        return []
    errors = [s for s in c.now.signals if s.level in ("ERROR", "CRITICAL") and _memory(s)]
    return [s for s in errors if _at(s) > min(began) and not any(min(began) < _at(d) < _at(s) for d in done)]


def _memory(s: Signal) -> bool:
    text = s.evidence.text.lower()
    return s.id in ("err.oom", "err.memory") or "out of memory" in text or "outofmemory" in text


def _at(s: Signal) -> int:
    return s.evidence.line or 0
