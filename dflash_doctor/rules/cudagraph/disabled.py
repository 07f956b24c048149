"""CUDA graphs are switched off: every decode step is launched kernel by kernel from the CPU.

## What it sees
The engine says that it runs eager, or that graphs are off: a flag (`--enforce-eager`, `--disable-cuda-graph`), an
environment variable, a graph mode of NONE, or SGLang's decode lines with `cuda graph: False`. The baseline had graphs.

## Why it costs you
A decode step is a few hundred to a few thousand kernels. Launched one by one each costs the CPU 4 to 20 microseconds
(MEASURING.md 5.3); replayed as a graph all of them cost about ten. Expect 1.3x for 8B and more on one big GPU, 2x to 4x
for small models, mixtures of experts, tensor parallelism and slow CPUs.

## How to confirm
Start without the flag and look for `Graph capturing finished`. GPU utilisation below 80 % with one CPU core at 100 %
while decoding is the same fault seen from outside.

## What usually did it
A debug flag that stayed; an image whose entry point sets it; memory so tight that graphs were switched off to start.

## When it is wrong
When the tuned server ran eager too, or on a CPU, where there are no CUDA graphs to lose. If capture was tried and
failed it is `cudagraph.capture_failed`. SGLang prints `cuda graph: False` on prefill lines of a healthy server.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import STEP
from dflash_doctor.rules.seen import new, proof


def check(c: Comparison) -> Finding | None:
    now = c.now.settings.get("cudagraph.mode")
    eager_steps = [i for i in c.now.intervals if i.steady and i.graph is False and i.kind == "decode"]
    graphed = [i for i in c.now.intervals if i.steady and i.graph is True]
    said_off = now is not None and now.value == "none" and now.said != "default"
    if not said_off and (not eager_steps or graphed):
        return None
    captured = c.now.find("graph.capture_done", "graph.capture") or c.now.value("cudagraph.sizes")
    if on_cpu(c) or (not said_off and captured):
        return None  # captured, but not for the batch that ran: batch_not_covered
    was = c.was.value("cudagraph.mode") if c.was else None
    if was == "none" or (c.was and c.was.find("graph.eager")):
        return None
    signals = new(c, "graph.eager", "graph.disabled", "graph.capture_skipped", "graph.disabled_feature")
    how = now.spelled if now and now.spelled else "cuda graph: False on decode lines"
    cost = "the tuned server had them" if was else "every step pays its launches"
    return Finding(
        cause="",
        summary=f"CUDA graphs are off ({how}); {cost}",
        confidence=0.93 if was else 0.8,
        severity="critical" if was else "warning",
        evidence=proof(*signals, now),
        next_steps=_steps(how),
        touches=(STEP,),
    )


def on_cpu(c: Comparison) -> bool:
    """Whether the engine runs on a CPU: there are no graphs there."""
    return c.now.value("host.device") == "cpu" or any("CPU KV" in s.evidence.text for s in c.now.find("kv.size"))


def _steps(how: str) -> tuple[str, ...]:
    if how.startswith("--"):
        return (f"start the server without {how}", 'look for "Graph capturing finished" in its log')
    return ('start the server with CUDA graphs on and look for "Graph capturing finished" in its log',)
