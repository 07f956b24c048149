"""dmesg.txt: what the kernel says of the cards, the bus, memory and heat. An understood line is a signal `kernel.*`.

    [41651.441180] NVRM: Xid (PCI:0000:09:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot …
    [41650.118820] nvidia 0000:09:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000f address=0xf1a00000 …]

From `dmesg`, `dmesg -T`, `journalctl -k` or a syslog file. The lines are data/kernel_signals.yaml, what an Xid means is
data/xid.yaml. Errors of bus and IOMMU are trouble of the cards only where the line names one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cache
from typing import Any

import yaml

from dflash_doctor import gpu_words, paths
from dflash_doctor.model import Evidence, Facts, Signal, Unreadable
from dflash_doctor.parsers.logs.templates import template
from dflash_doctor.parsers.texts import refuse_binary

READS: tuple[str, ...] = ("dmesg.txt",)

LONGEST = 1000  # characters of a line that are looked at
# [41651.441180] …                               dmesg
# [Thu May 21 22:12:00 2026] …                   dmesg -T
# 2026-05-21T22:12:00+0200 host kernel: …        journalctl -k -o short-iso
# May 21 22:12:00 host kernel: [41651.441180] …  a syslog file
STAMP = re.compile(
    r"(?:<\d{1,3}>)?(?:\[ *(?P<up>\d{1,12}\.\d{1,9})\]|\[(?P<date>\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\]"
    r"|(?:(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,16})|(?P<syslog>\w{3} [ \d]\d \d\d:\d\d:\d\d))"
    r"(?: \S{1,80} kernel:)?(?: ?\[ *\d{1,12}\.\d{1,9}\])?) ?"
)
# a place on the bus: 0000:09:00.0, 00000000:09:00, 41:00.0
PLACE = re.compile(
    r"(?<![0-9a-f:.])(?:[0-9a-f]{4,8}:)?(?P<bus>[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?(?![0-9a-f:.])", re.I
)
CARD = re.compile(r"\b(?:nvidia|amdgpu) (?:[0-9a-f]{4,8}:)?(?P<bus>[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]", re.I)
# Xid 154: GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)
DEMAND = re.compile(r"recovery action changed from .{1,60}? to 0x[0-9a-f]{1,4} \((?P<action>[^)]{1,60})\)")
# Command line: BOOT_IMAGE=/boot/vmlinuz root=… intel_iommu=on
COMMAND_LINE = re.compile(r"(?:Kernel c|C)ommand line: (?P<line>.+)")
# iommu: Default domain type: Translated
DOMAIN = re.compile(r"iommu: Default domain type: (?P<type>\w{1,30})")


@dataclass(frozen=True)
class Known:
    """One row of kernel_signals.yaml."""

    id: str
    mark: str
    pattern: re.Pattern[str]
    level: str
    topics: tuple[str, ...]
    card: str  # "needed", "only" or empty


@cache
def known() -> tuple[Known, ...]:
    """The rows, in the file's order."""
    rows = yaml.safe_load(paths.data("kernel_signals.yaml").read_text(encoding="utf-8"))["signals"]
    return tuple(
        Known(r["id"], r["mark"], re.compile(r["regex"]), r["level"], tuple(r["topics"]), r.get("card", ""))
        for r in rows
    )


@dataclass(frozen=True)
class Line:
    """One line, with and without its stamp."""

    number: int
    text: str
    body: str
    time: float | None


def parse(text: str, source: str) -> Facts:
    """The kernel's words that matter to a server. Raises Unreadable when the text is no kernel log."""
    refuse_binary(text, "a kernel log")
    lines = [_line(n, raw) for n, raw in enumerate(text.splitlines(), 1) if raw.strip()]
    cards = {m["bus"].lower() for x in lines for m in CARD.finditer(x.body)}
    signals = _grouped(s for x in lines if (s := _signal(x, cards, source)) is not None)
    if not signals and not any(x.time is not None for x in lines):
        raise Unreadable(f"no line of a kernel log in it; it begins with: {lines[0].text[:120]}")
    return Facts(signals=tuple(signals), host=_host(lines, signals))


def _line(number: int, raw: str) -> Line:
    text = raw[:LONGEST].rstrip()
    found = STAMP.match(text)
    if found is None:
        return Line(number, text, text, None)
    return Line(number, text, text[found.end() :], float(found["up"]) if found["up"] else _moment(found))


def _moment(found: re.Match[str]) -> float:
    """Seconds since the epoch; a syslog stamp has no year, and only orders."""
    try:
        if found["iso"]:
            written = re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", found["iso"].replace("Z", "+00:00"))
            return datetime.fromisoformat(written).timestamp()
        # 1972: a leap year, so that 29 February is a day
        said, form = found["date"], "%a %b %d %H:%M:%S %Y"
        if not said:
            said, form = "1972 " + found["syslog"], "%Y %b %d %H:%M:%S"
        return datetime.strptime(" ".join(said.split()), form).replace(tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return 0.0


# -- signals ----------------------------------------------------------------------------------------------------------


def _signal(line: Line, cards: set[str], source: str) -> Signal | None:
    for row in known():
        found = row.pattern.search(line.body) if row.mark in line.body else None
        if found is None:
            continue
        signal = Signal(
            id=row.id,
            evidence=Evidence(source, line.text, line.number),
            level=row.level,
            fields={k: v for k, v in found.groupdict().items() if v is not None},
            topics=row.topics,
            template=template(line.body),
            time=line.time,
        )
        if row.card and not _names_a_card(line.body, cards):
            return replace(signal, id=row.id + "_other", level="INFO", topics=()) if row.card == "needed" else None
        return _meant(signal) if row.id == "kernel.xid" else signal
    return None


def _meant(signal: Signal) -> Signal:
    """An Xid with its meaning, and its gravity by whose fault it usually is."""
    xid = gpu_words.xid(int(signal.fields["xid"]))
    level, means = "WARNING" if xid.kind in ("application", "info") else "ERROR", xid.means
    demand = DEMAND.search(signal.evidence.text)
    if demand:
        level = "INFO" if demand["action"] == "None" else "ERROR"  # None: it takes its demand back
        means = f"the driver now asks for: {demand['action']}"
    return replace(signal, level=level, fields={**signal.fields, "meaning": means, "kind": xid.kind})


def _names_a_card(body: str, cards: set[str]) -> bool:
    """Whether the line speaks of a card: by its driver, or by its place on the bus (any place, when none is known)."""
    if "nvidia" in body or "amdgpu" in body:
        return True
    places = {m["bus"].lower() for m in PLACE.finditer(body)}
    return bool(places & cards) or (not cards and bool(places))


def _grouped(signals: Iterable[Signal]) -> list[Signal]:
    """Lines that say the same are one signal with a count; the same Xid on two cards is two."""
    first: dict[tuple[str, ...], Signal] = {}
    for s in signals:
        key = (s.id, s.level, s.template, *(s.fields.get(k, "") for k in ("xid", "sxid", "pci")))
        seen = first.get(key)
        first[key] = s if seen is None else replace(seen, count=seen.count + 1, last_line=s.evidence.line)
    return list(first.values())


def _host(lines: list[Line], signals: list[Signal]) -> Mapping[str, Any]:
    """What the kernel says of itself: driver, its command line, how device memory is translated."""
    host: dict[str, Any] = {}
    for s in signals:
        if s.id == "kernel.driver":
            host["driver_version"] = s.fields["version"]
            host["driver_module"] = "open" if "open" in s.fields else "proprietary"
    for x in lines:
        if "ommand line:" in x.body and (found := COMMAND_LINE.search(x.body)):
            host["kernel_cmdline"] = found["line"].strip()
        elif "iommu: Default" in x.body and (found := DOMAIN.search(x.body)):
            host["iommu"] = found["type"]
    return host
