"""Collectives use a slower transport than they could.

## What it sees
NCCL's channels go over sockets or the network where a faster path exists (InfiniBand, RoCE, NVLink between trays),
NVLink features are switched off by environment, or symmetric memory is lost; the baseline's channels were better, or
the log itself shows that the better path is there.

## Why it costs you
Small all-reduces pay latency: 6 microseconds over NVLink, 40 over a tuned network, hundreds over TCP sockets; twice per
layer and step.

## How to confirm
NCCL_DEBUG=INFO at start: read `via …` on the channel lines, the NET plugin line and `MNNVL`/`NVLS` lines.

## What usually did it
`NCCL_IB_DISABLE`, `NCCL_CUMEM_ENABLE=0`, a missing RDMA device or IMEX channel in a container, a wrong interface name,
an engine that sets an NCCL variable itself.

## When it is wrong
On several hosts without a common NVLink fabric NET/IB with GDR is the good case. Between consumer cards of one host SHM
belongs to `nccl.p2p_disabled`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dflash_doctor.model import Comparison, Evidence, Finding, Setting, Signal, Snapshot
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.seen import new, proof, proofs

RANK = ("NVLS", "P2P", "SHM", "NET/IB", "NET/Socket")  # best first
SWITCHES = {
    "env.NCCL_IB_DISABLE": ("1", "InfiniBand/RoCE is switched off"),
    "env.NCCL_CUMEM_ENABLE": ("0", "cuMem is off, and multi-node NVLink and symmetric memory with it"),
    "env.NCCL_NVLS_ENABLE": ("0", "NVLink SHARP is off"),
    "env.NCCL_MNNVL_ENABLE": ("0", "multi-node NVLink is off"),
    "env.NCCL_SHM_DISABLE": ("1", "shared memory is off"),
    "env.NCCL_NET_GDR_LEVEL": ("0", "GPU-direct RDMA is off"),
}


def check(c: Comparison) -> Finding | None:
    switched = _switched(c)
    now, was = _worst(c.now), _worst(c.was) if c.was else None
    worse = now is not None and was is not None and RANK.index(now) > RANK.index(was)
    sockets = now == "NET/Socket" and (c.was is None or was != "NET/Socket")
    fabric = _fabric_unused(c.now) if c.was is None or not _fabric_unused(c.was) else None
    said = [s for s in new(c, "comm.symm_mem", "comm.nccl_symm") if s.level != "DEBUG"] if c.was else []
    if not (worse or sockets or fabric or (switched and now in ("NET/IB", "NET/Socket"))):
        return None
    words = (
        "the GPUs share an NVLink fabric across hosts, but NCCL does not use it"
        if fabric
        else f"NCCL sends via {now}" + (f" instead of {was}" if worse else "")
    )
    if switched:
        words += f": {SWITCHES[switched.key][1]} ({switched.key.removeprefix('env.')}={switched.value})"
    return Finding(
        cause="",
        summary=words,
        confidence=0.85 if fabric and switched else 0.8 if worse else 0.6,
        severity="warning",
        evidence=(
            *proof(switched),
            *fabric_lines(fabric),
            *proofs(c.now.find("nccl.transport")[:2]),
            *proofs(said[:1]),
        ),
        effects=("nccl.custom_allreduce_disabled",),
        next_steps=(
            f"unset {switched.key.removeprefix('env.')} and start again"
            if switched
            else "start once with NCCL_DEBUG=INFO and read why the better path was not taken",
        ),
        touches=(STEP, PREFILL),
    )


def fabric_lines(signal: Signal | None) -> tuple[Evidence, ...]:
    """The line that shows the fabric."""
    return () if signal is None else proofs([signal])


def _switched(c: Comparison) -> Setting | None:
    for key, (bad, _) in SWITCHES.items():
        setting = c.now.settings.get(key)
        if setting is not None and str(setting.value) == bad and (c.was is None or str(c.was.value(key)) != bad):
            return setting
    return None


def _worst(s: Snapshot) -> str | None:
    """The slowest transport among the channels, by its family."""
    transports = s.host.get("nccl_transports")
    if not isinstance(transports, Mapping):
        return None
    found = [r for t in transports for r in RANK if str(t).upper().startswith(r.upper())]
    return max(found, key=RANK.index) if found else None


def _fabric_unused(s: Snapshot) -> Signal | None:
    """A line that shows a fabric of several trays (IMEX, clique) where `MNNVL 0` says that it is not used."""
    lines = s.find("nccl.*")
    off = [x for x in lines if "MNNVL 0" in x.evidence.text or "MNNVL disabled" in x.evidence.text]
    net = _worst(s) in ("NET/IB", "NET/Socket")
    there = [
        x
        for x in lines
        if "clique" in x.evidence.text.lower()
        or "imex" in x.evidence.text.lower()
        or "fabric" in x.evidence.text.lower()
    ]
    host_says = any("imex" in str(v).lower() or "fabric" in str(k).lower() for k, v in s.host.items())
    return (off[0] if off else None) if net and (there or host_says) else None
