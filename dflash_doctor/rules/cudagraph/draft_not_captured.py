"""The target runs in graphs, the draft model does not.

## What it sees
The engine says that the drafter runs eagerly, or the baseline compiled and captured the drafter and this server does
not, with graphs of the target on.

## Why it costs you
A drafter is small, so its launches cost more than its kernels: 5 to 20 % of a step, more for serial drafters that run
once per position.

## How to confirm
Look for the drafter's own capture lines. Step time is longer at the same acceptance.

## What usually did it
A release without capture for this drafter; `enforce_eager` inside the speculative configuration; a draft attention
backend that cannot be captured.

## When it is wrong
In many releases a drafter in piecewise graphs next to a target in full ones is normal, and capturing all of it brings a
per cent or two. Without a difference to the tuned server, or the engine's own word, this is no finding.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding, Signal
from dflash_doctor.physics import STEP
from dflash_doctor.rules.drafting import drafting
from dflash_doctor.rules.seen import lost, new, proof, proofs, same_engine

EAGER = ("eager", "disabled", "not captured", "without a graph", "does not support")


def check(c: Comparison) -> Finding | None:
    if c.now.value("cudagraph.mode") == "none" or not drafting(c.now).on:
        return None
    said = [
        s for s in new(c, "graph.drafter", "graph.drafter_eager") if any(w in s.evidence.text.lower() for w in EAGER)
    ]
    flag = c.drift("cudagraph.draft_mode", "spec.draft_graph")
    gone = _drafter_compiled_before(c)
    if not said and not flag and not gone:
        return None
    tuned = c.was is not None
    return Finding(
        cause="",
        summary="the drafter runs without CUDA graphs while the target has them"
        + ("; the tuned server captured it" if gone else ""),
        confidence=0.8 if gone else 0.7 if tuned else 0.5,
        severity="warning",
        evidence=(*proofs(said[:2]), *proof(*flag), *proofs(gone[:2])),
        next_steps=("take a release that captures this drafter, or another draft attention backend",),
        touches=(STEP,),
    )


def _drafter_compiled_before(c: Comparison) -> list[Signal]:
    """Lines of the baseline that show the drafter compiled or captured, with no such line here."""
    if c.was is None or not same_engine(c) or not drafting(c.was).on:
        return []
    words = ("eagle_head", "draft", "eagle", "mtp", "dflash", "proposer")
    compiled = [s for s in c.was.find("compile.*", "graph.*") if any(w in s.evidence.text.lower() for w in words)]
    here = [s for s in c.now.find("compile.*", "graph.*") if any(w in s.evidence.text.lower() for w in words)]
    if here:
        return list(lost(c, "graph.drafter"))
    # "does not support" on both sides is the same state
    return [s for s in compiled if not any(w in s.evidence.text.lower() for w in EAGER)]
