"""The PCIe link runs below its maximum generation or width while under load.

## What it sees
Under load the link's width is below what the card can do, or its generation stays below the maximum, and the baseline
was better; or link errors are counted.

## Why it costs you
Tensor parallelism without NVLink sends every all-reduce over this link, and offloading sends weights or KV. A single
GPU that fits its model hardly notices.

## How to confirm
`nvidia-smi --query-gpu=index,pcie.link.gen.current,pcie.link.width.current,pcie.link.width.max --format=csv` while a
request runs. `lspci -vv` shows what the slot gives.

## What usually did it
A card in a chipset slot of four lanes; a riser; a bifurcated slot; a bad contact; a BIOS setting.

## When it is wrong
At idle the link drops to generation 1 to save power: that proves nothing. A narrow link that the tuned server had as
well is the tuned state.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding, GpuReading
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.cards import loaded, numbers, reading_lines

KEYS = ("pcie.link.gen.current", "pcie.link.gen.max", "pcie.link.width.current", "pcie.link.width.max")
PER_LANE = {
    1: 0.25,
    2: 0.5,
    3: 0.985,
    4: 1.97,
    5: 3.94,
    6: 7.56,
}  # GB/s one way, after encoding (PCIe base specification)


def check(c: Comparison) -> Finding | None:
    busy = loaded(c.now)
    now = _speed(busy, "current")
    if not now:
        return None
    best = _speed(busy, "max")
    was = _speed(loaded(c.was), "current") if c.was else {}
    narrow = {i: (was.get(i, best.get(i, v)), v) for i, v in now.items() if v < 0.75 * was.get(i, best.get(i, v))}
    if not narrow:
        return None
    several = int(c.now.value("parallel.tp", 1) or 1) > 1
    bridged = any(str(v).startswith("NV") for v in c.now.links.values())
    offload = bool(c.now.about("offload_on"))
    matters = (several and not bridged) or offload
    width = numbers(busy, KEYS[2])
    gen = numbers(busy, KEYS[0])
    words = ", ".join(f"GPU {i} at generation {gen.get(i, 0):.0f} x{width.get(i, 0):.0f}" for i in narrow)
    best_of, worst_of = max(p[0] for p in narrow.values()), min(p[1] for p in narrow.values())
    whose = "the tuned state" if was else "the card"
    return Finding(
        cause="",
        summary=f"PCIe under load: {words}; {whose} has {best_of / worst_of:.1f}x as much",
        confidence=(0.75 if was else 0.5) if matters else 0.2,
        severity="warning" if matters else "info",
        evidence=reading_lines(busy, *KEYS),
        next_steps=(
            "nvidia-smi topo -m; lspci -vv | grep -i lnksta  # slot, riser, bifurcation",
            "move the card to a wider slot",
        ),
        touches=(STEP, PREFILL),
    )


def _speed(readings: tuple[GpuReading, ...], which: str) -> dict[int, float]:
    gen, width = numbers(readings, f"pcie.link.gen.{which}"), numbers(readings, f"pcie.link.width.{which}")
    return {i: PER_LANE.get(round(gen[i]), 0.0) * width[i] for i in gen if i in width}
