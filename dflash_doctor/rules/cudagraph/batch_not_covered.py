"""Running batches are larger than, or fall between, the captured graph sizes and decode without a graph.

## What it sees
More requests run than the captured sizes cover (a verify batch counts requests times draft length plus one); a limit on
running requests that lies between two sizes; SGLang's decode lines saying `cuda graph: False` at the larger batches
only; a speed of the whole engine that falls when one more request joins.

## Why it costs you
The batch runs eager or piecewise: a cliff, not a slope. Every session slows down at once when one more joins.

## How to confirm
Hold the running requests of the slow lines against the sizes listed at capture. One request fewer is fast again.

## What usually did it
A `--max-num-seqs` that is not one of the sizes; sizes cut to save memory; a longer draft; `--cuda-graph-max-bs` below
the load; adaptive speculation whose plain decode was never captured.

## When it is wrong
Throughput that stays level while more requests run is saturation. A cliff with a full KV cache is `kv.preemption`. Past
the largest size a compute-bound batch loses little.
"""

from __future__ import annotations

from dataclasses import replace

from dflash_doctor.model import Comparison, Evidence, Finding, Interval
from dflash_doctor.physics import STEP
from dflash_doctor.rules.graphs import batches, cliff, covered, measured, sizes, tokens_per_request
from dflash_doctor.rules.seen import new, proof


def check(c: Comparison) -> Finding | None:
    if c.now.value("cudagraph.mode") == "none":
        return None
    running = batches(c.now)
    eager = _eager_at_large(running)
    top = covered(c.now)
    asked = {n for rows in measured(c.now).values() for n in rows}
    above = [n for n in {*running, *asked} if top is not None and n > top]
    tuned_top = covered(c.was) if c.was else None
    if eager is not None and not _eager_before(c, eager):
        return _finding(
            c, 0.88, f"from {eager} running requests on, decode steps run without a CUDA graph", running[eager]
        )
    if not above or top is None or (c.was and any(n > (tuned_top or 0) for n in batches(c.was)) and tuned_top == top):
        return None
    fall = cliff(c.now)
    at_edge = fall is not None and fall[0] <= top < fall[1]
    confidence = 0.85 if at_edge else 0.7 if c.slower or (tuned_top or 0) > top else 0.45
    words = f"{max(above)} requests run, but graphs cover {top}"
    if tokens_per_request(c.now) > 1:
        words += f" (each puts {tokens_per_request(c.now)} tokens into a verify step)"
    if at_edge and fall is not None:
        words += f"; the engine's speed falls to {fall[2]:.0%} from {fall[0]} to {fall[1]} running"
    return replace(_finding(c, confidence, words, running.get(max(above), [])), proven=at_edge)


def _eager_at_large(running: dict[int, list[Interval]]) -> int | None:
    """The smallest batch from which every decode line says that it had no graph while a smaller one had."""
    without = [n for n, rows in running.items() if rows and all(r.graph is False for r in rows)]
    return min(without) if without else None


def _eager_before(c: Comparison, batch: int) -> bool:
    if c.was is None:
        return False
    rows = batches(c.was).get(batch, [])
    return bool(rows) and all(r.graph is False for r in rows)


def _finding(c: Comparison, confidence: float, words: str, rows: list[Interval]) -> Finding:
    lines = tuple(Evidence("server.log", r.text, r.line) for r in rows[:2] if r.text)
    captured = sizes(c.now)
    step = f"use a limit that is one of the captured sizes ({', '.join(map(str, captured[-6:]))})" if captured else None
    return Finding(
        cause="",
        summary=words,
        confidence=confidence,
        severity="warning",
        evidence=(
            *lines,
            *proof(*new(c, "graph.sizes"), c.now.settings.get("cudagraph.sizes"), c.now.settings.get("sched.max_seqs")),
        ),
        next_steps=(
            *((step,) if step else ()),
            "or capture the sizes that run (--cudagraph-capture-sizes / --cuda-graph-bs)",
        ),
        touches=(STEP,),
    )
