"""One value of one GPU, as nvidia-smi, a sampler or a person writes it: `300.00 W`, `[N/A]`, `ERR!`, `0x4`, `Active`.

A number in nvidia-smi's unit, a text, None for "not supported", a Gap for a read that failed: three different things.
Key names are those of `nvidia-smi --help-query-gpu`; older and longer spellings of the same value get the one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dflash_doctor.gpu_words import REASONS, reasons_mask
from dflash_doctor.model import Gap

MASK = "clocks_event_reasons.active"
OLDER = "clocks_throttle_reasons."  # drivers before 535
ALIASES = {
    "gpu_name": "name", "product_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id", "bus_id": "pci.bus_id",
    "clocks.current.sm": "clocks.sm", "clocks.current.memory": "clocks.mem", "clocks.memory": "clocks.mem",
    "clocks.current.graphics": "clocks.gr", "clocks.graphics": "clocks.gr", "clocks.current.video": "clocks.video",
    "clocks.max.memory": "clocks.max.mem", "clocks.max.graphics": "clocks.max.gr",
    "clocks.applications.graphics": "clocks.applications.gr", "clocks.applications.memory": "clocks.applications.mem",
    "clocks.default_applications.graphics": "clocks.default_applications.gr",
    "clocks.default_applications.memory": "clocks.default_applications.mem",
    "pcie.link.gen.gpucurrent": "pcie.link.gen.current", "power.limit.enforced": "enforced.power.limit",
    "power.limit.default": "power.default_limit", "temperature": "temperature.gpu", "utilization": "utilization.gpu",
    "mig_mode": "mig.mode.current", "mig.mode": "mig.mode.current", "ecc.mode": "ecc.mode.current",
}  # fmt: skip
# never numbers, though some are written with digits only
TEXTS = {"uuid", "name", "serial", "pci.bus_id", "driver_version", "vbios_version", "cuda_version", "compute_cap"}

ABSENT = {
    "", "n/a", "[n/a]", "not supported", "[not supported]", "unsupported", "[unsupported]", "not available", "-",
    "requested functionality has been deprecated", "[requested functionality has been deprecated]",
}  # fmt: skip
# ERR!, [Unknown Error], [Insufficient Permissions], [GPU requires reset], GPU is lost, Unable to determine …
FAILED = re.compile(
    r"ERR!|\[?(?:unknown|insufficient|gpu requires|unable|failed|timed? ?out)|.{0,80}\b(?:error|is lost)\b", re.I
)
# 300.00 W, 24564 MiB, 97 %, 16x, 1785 MHz, 0 us, 250,5 W (a decimal comma: the numbers are localized, the units never)
NUMBER = re.compile(r"(?P<n>[-+]?\d{1,18}(?:[.,]\d{1,9})?) ?(?P<unit>%|x|C|°C|W|mW|kW|[MGK]?Hz|[KMGT]i?B|[mun]s|s|B)?")
# the unit of a number -> what it must be multiplied by to be in nvidia-smi's own (MHz, W, MiB, us)
UNITS = {
    "GHz": 1000.0, "KHz": 0.001, "Hz": 1e-6, "mW": 0.001, "kW": 1000.0, "KiB": 1 / 1024, "GiB": 1024.0,
    "TiB": 1024.0**2, "B": 1 / 1024**2, "KB": 1e3 / 1024**2, "MB": 1e6 / 1024**2, "GB": 1e9 / 1024**2,
    "TB": 1e12 / 1024**2, "ms": 1000.0, "s": 1e6, "ns": 0.001,
}  # fmt: skip


def key_of(name: str) -> str:
    """The one name of a value: without its unit, in the spelling of a present driver."""
    name = re.sub(r" ?\[[^\]]{0,20}\]$", "", name[:200].strip()).strip().lower()
    if name.startswith(OLDER):
        name = "clocks_event_reasons." + name.removeprefix(OLDER)
    return ALIASES.get(name, name)


def value_of(key: str, raw: Any) -> Any:
    """Number, text, None for not supported, Gap for a read that failed."""
    if raw is None or isinstance(raw, bool):
        return raw
    if isinstance(raw, Mapping):
        why = raw.get("error", raw.get("why"))
        return Gap(key, _short(why if isinstance(why, str) and why else "the read failed"))
    if key == MASK and isinstance(raw, (int, float)):
        return f"0x{int(raw):016X}" if 0 <= raw < 2**63 else Gap(key, f"not a mask: {raw:.17g}")
    if isinstance(raw, (int, float)):
        return raw if raw == raw and abs(raw) != float("inf") else Gap(key, f"not a number: {raw}")
    return _text(key, raw) if isinstance(raw, str) else None


def _text(key: str, raw: str) -> Any:
    text = raw.strip()
    if text.lower() in ABSENT:
        return None
    if FAILED.match(text[:200]) and (key not in TEXTS or text[0] == "[" or text.startswith("ERR")):
        return Gap(key, _short(text.strip("[]")))
    if key in TEXTS:
        return _short(text)
    found = NUMBER.fullmatch(text)
    if found is None:
        return _short(text)
    number = found["n"].replace(",", ".")
    scale = UNITS.get(found["unit"] or "")
    if scale is not None:
        return float(number) * scale
    return float(number) if "." in number else int(number)


def _short(text: str) -> str:
    return " ".join(text[:300].split())


def with_mask(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with the reasons as one mask where they were given one by one (`Active`, `Not Active`)."""
    said = {w: values.get(f"clocks_event_reasons.{w}") for w in REASONS.values()}
    if MASK in values or not any(isinstance(v, str) for v in said.values()):
        return dict(values)
    active = {w: str(v).lower() == "active" for w, v in said.items()}
    return {**values, MASK: reasons_mask(active)}


# what the rules of the gpu family ask for; when a card does not tell one of these, the report says so
ASKED = ("clocks.sm", MASK, "power.draw", "power.limit", "utilization.gpu")
NAMED = 4  # keys named in one gap; a lost card fails all of its thirty


def gaps_of(cards: Iterable[tuple[int, Mapping[str, Any]]], source: str) -> tuple[Gap, ...]:
    """What could not be read, and what a card does not support though rules ask for it: one gap for each reason."""
    why_not: dict[tuple[str, str], set[int]] = {}
    for index, values in cards:
        for key, value in values.items():
            if isinstance(value, Gap):
                why_not.setdefault((key, value.why), set()).add(index)
            elif value is None and key in ASKED:
                why_not.setdefault((key, "this card or driver does not report it"), set()).add(index)
    keys: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for (key, why), who in why_not.items():
        keys.setdefault((why, tuple(sorted(who))), []).append(key)
    return tuple(Gap(f"{source}: {_some(names)} of GPU {_some(who)}", why) for (why, who), names in keys.items())


def _some(names: Sequence[object]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(map(str, names[:NAMED])) + more
