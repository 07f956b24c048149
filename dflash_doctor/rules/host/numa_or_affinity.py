"""Processes run on the wrong NUMA node or are pinned badly.

## What it sees
A worker's cores belong to another node than its GPU, by affinity lists and the topology table; or the engine says that
binding failed.

## Why it costs you
Every launch and copy crosses the sockets; the step waits for the slowest rank.

## How to confirm
`nvidia-smi topo -m` against `taskset -cp PID` of each worker.

## What usually did it
An automatic pinning that counts GPUs as if they were in socket order; a container pinned to one node; a virtual machine
without NUMA information.

## When it is wrong
On one socket there is nothing to cross. Unpinned workers on an idle host usually find their node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dflash_doctor.model import Comparison, Evidence, Finding, Snapshot
from dflash_doctor.physics import STEP
from dflash_doctor.rules.seen import new_about, proofs


def check(c: Comparison) -> Finding | None:
    wrong = list(_misplaced(c.now))
    if c.was is not None and len(list(_misplaced(c.was))) >= len(wrong):
        wrong = []
    said = [s for s in new_about(c, "numa_affinity") if s.level == "WARNING"]
    if not wrong and not said:
        return None
    return Finding(
        cause="",
        summary=f"{len(wrong)} worker{'s' * (len(wrong) != 1)} run on the cores of another NUMA node than their GPU's"
        if wrong
        else "the engine could not bind its workers to their GPUs' NUMA nodes",
        confidence=0.85 if wrong else 0.4,
        severity="warning",
        evidence=(*wrong[:4], *proofs(said[:2])),
        next_steps=("bind each rank to the node of its GPU (--numa-bind, --numa-node, or numactl per worker)",),
        touches=(STEP,),
    )


def _misplaced(s: Snapshot) -> Iterator[Evidence]:
    """One line per worker whose cores have nothing in common with its GPU's."""
    cards = s.host.get("gpu_cpu_affinity")
    if not isinstance(cards, Mapping):
        return
    for gpu, cpus, where in _workers(s):
        home = cards.get(gpu, cards.get(str(gpu)))
        if home is None or not cpus:
            continue
        if not cpus & cores(str(home)):
            yield Evidence(where.source, where.text, where.line)


def _workers(s: Snapshot) -> Iterator[tuple[int, set[int], Evidence]]:
    """GPU, cores and the line that says so, from the engine's own words and from host.json."""
    for x in s.find("host.cpu_affinity"):
        gpu, cpus = x.fields.get("gpu") or x.fields.get("gpu_id"), x.fields.get("cpus") or x.fields.get("list")
        m = re.search(r"gpu_id (\d+) is running on CPUs: \[([\d, ]+)\]?", x.evidence.text)
        if m:
            gpu, cpus = m[1], m[2]
        if gpu is not None and cpus and str(gpu).isdigit():
            yield int(gpu), cores(cpus), x.evidence
    rows = s.host.get("affinity")
    for row in rows if isinstance(rows, (list, tuple)) else ():
        if isinstance(row, Mapping) and str(row.get("gpu", "")).isdigit():
            yield int(row["gpu"]), cores(str(row.get("cpus", ""))), Evidence("host.json", f"affinity: {dict(row)}")


def cores(text: str) -> set[int]:
    """`0-3,8` or `0, 1, 2` as a set of core numbers."""
    found: set[int] = set()
    for piece in re.findall(r"\d+(?:\s*-\s*\d+)?", text):
        low, _, high = piece.partition("-")
        first, last = int(low), int(high or low)
        found.update(range(first, min(last, first + 4096) + 1))
    return found
