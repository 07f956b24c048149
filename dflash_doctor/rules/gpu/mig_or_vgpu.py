"""A MIG slice or vGPU serves where a full GPU was tuned or is expected.

## What it sees
The device's name or mode says MIG or vGPU, or its memory is a fraction of the part's; the baseline was a full card, or
there is none to excuse it.

## Why it costs you
A 1g slice has a seventh of the multiprocessors and an eighth of the memory and its bandwidth.

## How to confirm
`nvidia-smi -L` lists MIG devices with their profile; the engine sees only the slice that was handed to it.

## What usually did it
A scheduler's resource name (`nvidia.com/mig-1g.10gb`), MIG mode left on by a neighbour, a virtual machine's profile.

## When it is wrong
When the tuned server ran on the same profile. A full card in MIG mode with one 7g instance loses only a little.
"""

from __future__ import annotations

import re

from dflash_doctor.model import Comparison, Evidence, Finding, Snapshot
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.seen import proofs

SLICE = re.compile(r"\bMIG\b|\b[1-7]g\.\d+gb|\bGRID\b|vGPU|-\d+[QCAB]\b", re.I)
ON = ("enabled", "1", "true", "on")


def check(c: Comparison) -> Finding | None:
    now = _slices(c.now)
    if not now or (c.was is not None and _slices(c.was)):
        return None
    said = [s for s in c.now.signals if SLICE.search(s.evidence.text)]
    return Finding(
        cause="",
        summary=f"the engine runs on a slice of a GPU, not on a full one: {now[0].text}",
        confidence=0.85,
        severity="critical",
        evidence=(*now[:3], *proofs(said[:1])),
        effects=("quant.kernel_fallback", "kv.capacity_shrunk"),
        next_steps=(
            "nvidia-smi -L  # which profile was handed out",
            "ask the scheduler for a full GPU, or tune for this profile",
        ),
        touches=(STEP, PREFILL),
    )


def _slices(s: Snapshot) -> tuple[Evidence, ...]:
    found = [
        Evidence(r.source, str(r.values["name"]), r.line)
        for r in s.readings
        if isinstance(r.values.get("name"), str) and SLICE.search(r.values["name"])
    ]
    devices = s.host.get("mig_devices")
    if isinstance(devices, (list, tuple)):
        found += [Evidence("nvidia-smi.txt", str(d)) for d in devices]
    visible = s.value("env.CUDA_VISIBLE_DEVICES") or s.value("env.NVIDIA_VISIBLE_DEVICES")
    if visible and "MIG" in str(visible):
        found.append(Evidence("environ", f"visible devices: {visible}"))
    if found or not any(str(r.values.get("mig.mode.current", "")).lower() in ON for r in s.readings):
        return tuple(dict.fromkeys(found))
    return tuple(Evidence(r.source, f"GPU {r.index} is in MIG mode", r.line) for r in s.readings[:1])
