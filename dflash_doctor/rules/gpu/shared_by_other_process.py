"""Another process uses the same GPU.

## What it sees
A process that is not this engine's holds memory on one of its GPUs, and the baseline had none; or the engine itself
says at start that its ranks see unequal free memory.

## Why it costs you
Two processes take turns on the card: steps of this server wait for the neighbour's kernels, and the KV cache has less
room. If the engine reserves more memory than is left, it does not start at all.

## How to confirm
`nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv`, then look at the process.

## What usually did it
A notebook or an old server that was not stopped; a second deployment scheduled on the same card; a monitoring job.

## When it is wrong
Desktop processes with a few hundred MiB cost nothing. In a container the engine's own workers may carry names or pids
that the host does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dflash_doctor.model import Comparison, Evidence, Finding, Snapshot
from dflash_doctor.physics import QUEUE, STEP
from dflash_doctor.rules.seen import new_about, proofs

OURS = re.compile(r"vllm|sglang|sgl[-_]|VLLM::|sglang::|ray::", re.I)
HARMLESS = re.compile(r"Xorg|gnome|kwin|plasma|wayland|Xwayland|mutter|dcgm|nv-hostengine", re.I)
WORTH = 512.0  # MiB; a CUDA context alone is 200 to 500


def check(c: Comparison) -> Finding | None:
    others = list(_strangers(c.now))
    if c.was is not None and list(_strangers(c.was)):
        return None  # the tuned server had company too
    said = new_about(c, "gpu_memory_shared") if c.now.served is False else ()
    unbalanced = [s for s in said if s.id in ("mem.unbalanced", "mem.kv_available", "err.oom")]
    if not others and not [s for s in unbalanced if s.id == "mem.unbalanced"]:
        return None
    evidence: tuple[Evidence, ...] = ()
    steps: tuple[str, ...] = ("nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv",)
    what = "the GPUs of this group have unequal free memory: something else holds memory on one of them"
    if others:
        index, process = max(others, key=lambda o: o[1].get("used_memory") or 0)
        who = f"{process.get('name', 'a process')} (pid {process.get('pid', '?')})"
        what = f"{who} holds {process['used_memory']:.0f} MiB of GPU {index}"
        evidence = tuple(Evidence("gpu.json", f"GPU {i}: {dict(p)}") for i, p in others[:4])
        steps = (f"ps -fp {process.get('pid', 'PID')}  # whose is it?", "end it or move one of the two")
    return Finding(
        cause="",
        summary=what,
        confidence=0.85 if others and unbalanced else 0.7,
        severity="critical" if c.now.served is False else "warning",
        evidence=(*evidence, *proofs(unbalanced)),
        effects=("server.failing",) if c.now.served is False else (),
        next_steps=steps,
        touches=(STEP, QUEUE),
    )


def _strangers(s: Snapshot) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Processes on the engine's GPUs that are not its own, each once."""
    seen = set()
    mine = _own_pids(s)
    for r in s.readings:
        processes = r.values.get("processes")
        for p in processes if isinstance(processes, (list, tuple)) else ():
            if not isinstance(p, Mapping) or not isinstance(p.get("used_memory"), (int, float)):
                continue
            name = str(p.get("name", ""))
            known = p.get("pid") in mine or OURS.search(name) or HARMLESS.search(name)
            if (
                not known
                and p["used_memory"] >= WORTH
                and (r.index, p.get("pid")) not in seen
                and mine_is_there(s, r.index)
            ):
                seen.add((r.index, p.get("pid")))
                yield r.index, p


def mine_is_there(s: Snapshot, index: int) -> bool:
    """Whether the engine shares this GPU, or has no process anywhere (it failed to start)."""
    holders = {
        r.index
        for r in s.readings
        for p in (r.values.get("processes") or ())
        if isinstance(p, Mapping) and (OURS.search(str(p.get("name", ""))) or p.get("pid") in _own_pids(s))
    }
    return not holders or index in holders


def _own_pids(s: Snapshot) -> set[Any]:
    processes = s.host.get("processes")
    return (
        {p.get("pid") for p in processes if isinstance(p, Mapping)} if isinstance(processes, (list, tuple)) else set()
    )
