"""CUDA graphs run in a weaker mode than tuned: whole decode steps no longer replay as one graph.

## What it sees
The graph mode is weaker than in the baseline (full and piecewise, then full, then piecewise, then none), or the engine
says at start that it lowered the mode it was asked for.

## Why it costs you
In piecewise mode attention runs outside the graph and every layer becomes a launch of its own again. It costs between
5 % on big dense models and half of the speed on small ones, mixtures of experts and long verify batches.

## How to confirm
Look for `Overriding cudagraph_mode` or `setting cudagraph_mode=` in the log, and at which modes the capture bars name.

## What usually did it
An attention backend that cannot hold multi-token verify batches in a full graph; speculation with a feature that
changes the verify length; a KV connector; context parallelism; a new default.

## When it is wrong
Some releases capture the drafter piecewise next to a target in full graphs; that is their normal state. When graphs are
off altogether it is `cudagraph.disabled`.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import STEP
from dflash_doctor.rules.graphs import ORDER
from dflash_doctor.rules.seen import new, proof, put_back


def check(c: Comparison) -> Finding | None:
    now = c.now.settings.get("cudagraph.mode")
    lowered = [s for s in new(c, "graph.mode_downgraded") if (s.fields.get("new") or "PIECEWISE").upper() != "NONE"]
    was = c.was.settings.get("cudagraph.mode") if c.was else None
    weaker = now is not None and was is not None and 0 < ORDER.get(str(now.value), 9) < ORDER.get(str(was.value), 0)
    if not weaker and not lowered:
        return None
    if now is not None and now.value == "none":
        return None
    backend = c.drift("attention.backend")
    said = lowered[0].fields if lowered else {}
    mode = said.get("new") or (now.value if now else "a weaker one")
    wanted = said.get("mode") or (was.value if was else "more")
    return Finding(
        cause="",
        summary=f"CUDA graphs run in mode {str(mode).lower()} instead of {str(wanted).lower()}"
        + (f" with attention backend {said['backend']}" if said.get("backend") else ""),
        confidence=0.88 if weaker else 0.7 if c.was else 0.6,
        severity="warning",
        evidence=proof(*lowered, now if weaker else None, was if weaker else None),
        next_steps=(*(put_back(d) for d in backend), "read the engine's own reason in the line above and undo it"),
        touches=(STEP,),
    )
