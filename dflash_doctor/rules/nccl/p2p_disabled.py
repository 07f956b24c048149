"""GPU peer-to-peer is off: collectives between cards pass through host memory.

## What it sees
`NCCL_P2P_DISABLE` is set, the engine's P2P test fails, NCCL's channels go via SHM between cards of one host, or the
driver says that peer access is not there; the baseline had it, or nothing explains why it should be off.

## Why it costs you
Every tensor-parallel layer does two all-reduces. Through host memory each takes 20 to 60 microseconds instead of 5 to
15 (MEASURING.md 5.4): several milliseconds per step for 64 layers.

## How to confirm
`nvidia-smi topo -p2p r`, then NCCL_DEBUG=INFO and read `via P2P` or `via SHM` on the channel lines.

## What usually did it
An environment variable from an old recipe; a virtual machine or IOMMU with ACS on; consumer cards whose driver refuses
P2P; a container without shared IPC.

## When it is wrong
When the tuned server had P2P off as well, when one GPU serves alone, or across hosts, where NET is the normal path.
"""

from __future__ import annotations

from collections.abc import Mapping

from dflash_doctor.model import Comparison, Evidence, Finding, Setting, Signal, Snapshot
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.seen import proof, proofs

TRUE = ("1", "true", "yes", "on")


def check(c: Comparison) -> Finding | None:
    if not _several(c.now):
        return None
    why, evidence = _off(c.now)
    if why is None or (c.was is not None and _off(c.was)[0] is not None):
        return None
    flag = c.now.settings.get("env.NCCL_P2P_DISABLE")
    return Finding(
        cause="",
        summary=f"GPU peer-to-peer is off: {why}",
        confidence=0.85 if c.was is not None else 0.6,
        severity="warning",
        evidence=evidence,
        effects=("nccl.custom_allreduce_disabled", "nccl.transport_degraded"),
        next_steps=("unset NCCL_P2P_DISABLE and start again",)
        if _true(flag)
        else ("nvidia-smi topo -p2p r  # which pairs have it", "check IOMMU/ACS and the driver"),
        touches=(STEP, PREFILL),
    )


def _off(s: Snapshot) -> tuple[str | None, tuple[Evidence, ...]]:
    flag = s.settings.get("env.NCCL_P2P_DISABLE")
    if _true(flag):
        return "NCCL_P2P_DISABLE is set", proof(flag)
    failed = [x for x in s.about("p2p_topology") if _says_no_peer(x)]
    if failed:
        return "the engine finds no peer access between the cards", proofs(failed)
    transports = s.host.get("nccl_transports")
    if isinstance(transports, Mapping) and transports and not any(str(t).startswith("P2P") for t in transports):
        shm = [t for t in transports if str(t).startswith("SHM")]
        if shm:
            return "NCCL sends between the cards via shared host memory", proofs(s.find("nccl.transport")[:2])
    return None, ()


def _says_no_peer(signal: Signal) -> bool:
    text = signal.evidence.text.lower()
    return ("p2p" in text or "peer" in text) and any(w in text for w in ("lack", "not ", "fail", "disabled", "unable"))


def _true(setting: Setting | None) -> bool:
    return setting is not None and str(setting.value).lower() in TRUE


def _several(s: Snapshot) -> bool:
    tp = s.value("parallel.tp", 1)
    pp = s.value("parallel.pp", 1)
    return (isinstance(tp, int) and tp > 1) or (isinstance(pp, int) and pp > 1) or bool(s.host.get("nccl_transports"))
