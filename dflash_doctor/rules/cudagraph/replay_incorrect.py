"""Graph replay computes something wrong: acceptance is dead with graphs on and fine in eager mode.

## What it sees
Drafts are never accepted (or logits are NaN) while graphs are on, and the same drafter was accepted on a server start
without graphs; everything else is equal.

## Why it costs you
Speculation gives nothing; the answers themselves may be wrong too.

## How to confirm
Start once with `--enforce-eager`: acceptance comes back. Then switch off only the drafter's graphs.

## What usually did it
Stale buffers in a captured graph: metadata of the attention backend or hidden states that are not copied before replay.

## When it is wrong
A drafter that is dead in eager mode too is wired wrongly. Without a start in eager mode to hold against, this is a
guess to check.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import TOKENS
from dflash_doctor.rules.drafting import acceptance, drafting, same_drafter, shown
from dflash_doctor.rules.seen import new, proof, proofs


def check(c: Comparison) -> Finding | None:
    now = drafting(c.now)
    nan = new(c, "err.nan")
    graphs_came = [
        d for d in c.drift("cudagraph.mode") if d.was and d.now and d.was.value == "none" and d.now.value != "none"
    ]
    dead = now.on and now.useless
    if c.was is None or not graphs_came or not (dead or nan):
        return None
    if dead and not (same_drafter(c) and (drafting(c.was).length or 1) > 1.3):
        return None
    return Finding(
        cause="",
        summary=f"with CUDA graphs on drafts are never accepted ({shown(now)}); without them they were",
        confidence=0.75,
        severity="critical",
        evidence=(*acceptance(c.now), *proof(*graphs_came), *proofs(nan)),
        effects=("spec.acceptance_collapse", "spec.drafter_target_mismatch"),
        next_steps=("start once with --enforce-eager and compare acceptance", "then report it with both logs"),
        touches=(TOKENS,),
    )
