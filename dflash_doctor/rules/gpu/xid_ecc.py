"""The GPU or its link reports hardware errors.

## What it sees
Xid errors of the hardware kind, IOMMU or PCIe bus errors in the kernel log, uncorrectable ECC errors, pending row
remapping, NVLink errors that grow, a link that its equals have, a card that is lost or asks for a reset; new since the
baseline.

## Why it costs you
Retries and replays slow the card down; the next stage is a process that dies or a card that falls off the bus.

## How to confirm
`dmesg -T | grep -i -E 'xid|nvrm|aer|iommu'`, `nvidia-smi -q -d ECC,ROW_REMAPPER`, `nvidia-smi nvlink -e`.

## What usually did it
A failing card or riser, heat, an IOMMU that blocks DMA (`iommu=pt` missing), a driver fault after which only a reset
or reboot helps.

## When it is wrong
Xid 13, 31, 43 and 45 usually are the application's fault. Old lines from before the last boot, and corrected errors in
small numbers, are history.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Evidence, Finding, Signal
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.card_errors import card_errors, lifetime_grown
from dflash_doctor.rules.seen import new, proofs

APPLICATION = {"13", "31", "43", "45", "68", "69"}  # nvml.md: usually the application's own fault


def check(c: Comparison) -> Finding | None:
    kernel = [s for s in new(c, "kernel.xid", "kernel.iommu", "kernel.aer", "kernel.nvrm") if not _application(s)]
    counted = card_errors(c.now)
    if c.was is not None:
        had = {e.text for e in card_errors(c.was)}
        counted = (*(e for e in counted if e.text not in had), *lifetime_grown(c.now, c.was))
    engine = [s for s in new(c, "err.cuda") if any(w in s.evidence.text.lower() for w in ("ecc", "nvlink", "bus"))]
    if not kernel and not counted and not engine:
        return None
    hard = [s for s in kernel if s.id in ("kernel.xid", "kernel.iommu")]
    xids = sorted({s.fields.get("xid", "?") for s in kernel if s.id == "kernel.xid"}, key=str)
    words = [f"Xid {', '.join(xids)}"] if xids else []
    words += ["IOMMU faults on the GPUs' DMA"] if any(s.id == "kernel.iommu" for s in kernel) else []
    words += ["PCIe bus errors"] if any(s.id == "kernel.aer" for s in kernel) else []
    words += [_said(counted)] if counted else []
    meaning = next((s.fields["meaning"] for s in kernel if s.fields.get("meaning")), "")
    iommu = any(s.id == "kernel.iommu" for s in kernel)
    return Finding(
        cause="",
        summary=f"the hardware reports errors: {' and '.join(words) or 'see below'}"
        + (f" ({meaning})" if meaning else ""),
        confidence=0.9 if hard else 0.6,
        severity="critical" if hard or counted else "warning",
        evidence=(*proofs(kernel[:4]), *counted[:2], *proofs(engine[:1])),
        effects=("server.failing",) if c.now.served is False else (),
        next_steps=(
            ("boot with iommu=pt on the kernel command line (GRUB_CMDLINE_LINUX), then reboot",) if iommu else ()
        )
        + ("nvidia-smi -q -d ECC,ROW_REMAPPER; nvidia-smi nvlink -e", "drain the node; reset the GPU or reboot"),
        touches=(STEP, PREFILL),
        proven=bool(hard),
    )


def _application(s: Signal) -> bool:
    return (s.id == "kernel.xid" and s.fields.get("xid") in APPLICATION) or (
        s.id in ("kernel.nvrm", "kernel.aer") and s.level == "INFO"
    )


def _said(counted: tuple[Evidence, ...]) -> str:
    """What the cards themselves say, in words."""
    texts = [e.text for e in counted]
    if any("is lost" in x for x in texts):
        return "a card does not answer any more"
    if any("requires re" in x or "recovery_action" in x for x in texts):
        return "a card asks for a reset"
    return (
        "NVLink errors or missing links" if all("NVLink" in x for x in texts) else "memory errors counted by the card"
    )
