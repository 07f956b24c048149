"""What GPUs say, in words: clock event reasons, Xid numbers, product names. A noun, like metrics.py.

    event_reasons("0x0000000000000004")     ('sw_power_cap',)
    xid(79).means                           'the GPU has fallen off the bus (power, slot, riser or heat)'
    spec_of("NVIDIA RTX A6000").bandwidth   768e9 bytes per second

The tables are data/xid.yaml and data/gpu_specs.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import yaml

from dflash_doctor import paths

# bits of clocks_event_reasons.active (nvml.h, nvmlClocksEventReason*), in the words nvidia-smi has for most of them
REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}


def event_reasons(mask: str | int) -> tuple[str, ...]:
    """The words of a reasons mask, lowest bit first; a bit without a name keeps its number. Not a mask: no words."""
    bits = _bits(mask)
    known = tuple(word for bit, word in REASONS.items() if bits & bit)
    unknown = (1 << n for n in range(len(REASONS), min(bits.bit_length(), 64)) if bits >> n & 1)
    return known + tuple(f"bit_{b:#x}" for b in unknown)


def reasons_mask(words: Mapping[str, bool]) -> str:
    """The mask, as nvidia-smi writes it, from which words are active."""
    bits = sum(bit for bit, word in REASONS.items() if words.get(word))
    return f"0x{bits:016X}"


def _bits(mask: str | int) -> int:
    if isinstance(mask, int):
        return max(mask, 0)
    try:
        return max(int(mask.strip()[:20], 0), 0)
    except ValueError:
        return 0


# -- Xid --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Xid:
    """One number of the driver's error catalogue."""

    number: int
    kind: Literal["application", "hardware", "link", "driver", "info", "unknown"]
    means: str


def xid(number: int) -> Xid:
    """What an Xid number means; kind "unknown" for one that is not in data/xid.yaml."""
    return _xids().get(number, Xid(number, "unknown", ""))


@cache
def _xids() -> Mapping[int, Xid]:
    rows = yaml.safe_load(paths.data("xid.yaml").read_text(encoding="utf-8"))
    return {n: Xid(n, row["kind"], row["means"]) for n, row in rows.items()}


# -- products ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GpuSpec:
    """What the maker's sheet says of one product. Base units: bytes, bytes per second, FLOP per second, watts."""

    id: str
    names: tuple[str, ...]  # as the driver reports them
    vendor: str
    arch: str
    compute_capability: str
    memory: tuple[float, ...]  # bytes; several sizes were sold under some names
    bandwidth: float | None  # of the device's memory; None: not known
    flops: Mapping[str, float]  # dense, by number format: bf16, fp8, fp4, fp16
    pcie_gen: int
    pcie_width: int
    nvlink: float | None  # both directions summed; 0: it has none
    tdp: float | None
    unified_memory: bool = False  # memory, power limit and PCIe fields are not supported then
    uncertain: tuple[str, ...] = ()  # fields that are estimates
    note: str = ""


def spec_of(name: str) -> GpuSpec | None:
    """The sheet of a product by the name the driver gives it; None for a slice of a card and for what is not known."""
    return _by_name().get(_plain(name))


def specs() -> tuple[GpuSpec, ...]:
    """Every product that is known."""
    return tuple({s.id: s for s in _by_name().values()}.values())


def _plain(name: str) -> str:
    # drivers before 470 leave the maker's name out
    return " ".join(name.split()).lower().removeprefix("nvidia ")


@cache
def _by_name() -> Mapping[str, GpuSpec]:
    rows = yaml.safe_load(paths.data("gpu_specs.yaml").read_text(encoding="utf-8"))["gpus"]
    specs = [_spec(row) for row in rows]
    return {_plain(n): s for s in specs for n in s.names}


def _spec(row: Mapping[str, Any]) -> GpuSpec:
    sizes = row["memory_gb"] if isinstance(row["memory_gb"], list) else [row["memory_gb"]]
    return GpuSpec(
        id=row["id"],
        names=tuple(row["nvml_names"]),
        vendor=row["vendor"],
        arch=row["arch"],
        compute_capability=row["compute_capability"],
        memory=tuple(s * 1e9 for s in sizes),
        bandwidth=_scaled(row["memory_bandwidth_gbs"], 1e9),
        flops={k: v * 1e12 for k, v in row["tflops_dense"].items() if v is not None},
        pcie_gen=row["pcie"]["gen"],
        pcie_width=row["pcie"]["width"],
        nvlink=_scaled(row["nvlink_gbs_total"], 1e9),
        tdp=_scaled(row["tdp_w"], 1.0),
        unified_memory=row.get("unified_memory", False),
        uncertain=tuple(row.get("uncertain", ())),
        note=row.get("note", ""),
    )


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value * unit
