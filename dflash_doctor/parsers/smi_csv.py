"""`nvidia-smi --query-gpu=… --format=csv`, with units or without, and `--query-compute-apps`.

    timestamp, index, name, clocks.current.sm [MHz], power.draw [W], clocks_throttle_reasons.active
    2026/05/21 22:12:00.123, 0, NVIDIA RTX A6000, 1785 MHz, 262.01 W, 0x0000000000000004

Without its first line (noheader) nobody can know which number is which. Several tables may follow each other.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from dflash_doctor.model import Facts, Gap, GpuReading, Unreadable
from dflash_doctor.parsers.card_values import key_of, value_of, with_mask

# any of these names makes a line the head of a table
TELLING = {
    "index", "name", "uuid", "pci.bus_id", "utilization.gpu", "clocks.sm", "power.draw", "memory.used", "pstate",
    "temperature.gpu", "driver_version", "pid", "clocks_event_reasons.active", "clocks.gr",
}  # fmt: skip
SHOWN = {"timestamp", "index", "count", "driver_version"}  # said elsewhere than in the values


@dataclass
class Seen:
    """What the tables said so far."""

    order: dict[str, int] = field(default_factory=dict)  # uuid or bus id -> index, in order of appearance
    times: dict[int, int] = field(default_factory=dict)  # how often a card was seen
    readings: list[GpuReading] = field(default_factory=list)
    apps: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    host: dict[str, Any] = field(default_factory=dict)
    odd: int = 0  # lines that do not have the table's number of cells


def rows(text: str, source: str) -> Facts:
    """The rows of every table; none when no line names the columns. Raises Unreadable when it is no CSV."""
    seen = Seen()
    names: list[str] = []
    for number, cells in _rows(text):
        keys = [key_of(c) for c in cells]
        if TELLING.intersection(keys) and not any(c[:1].isdigit() for c in cells):
            names = keys
        elif names and len(cells) == len(names):
            _row(seen, dict(zip(names, cells, strict=True)), number, source)
        elif names:
            seen.odd += 1
    _give(seen)
    gaps = [Gap(source, f"{seen.odd} lines do not have the columns of their table")] if seen.odd else []
    return Facts(readings=tuple(seen.readings), host=seen.host, gaps=tuple(gaps))


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader((line.replace("\0", "") for line in text.splitlines()), skipinitialspace=True)
    try:
        for cells in reader:
            if any(c.strip() for c in cells):
                yield reader.line_num, [c.strip() for c in cells]
    except csv.Error as e:
        raise Unreadable(f"not CSV: {e} in line {reader.line_num}") from e


def _row(seen: Seen, row: dict[str, str], number: int, source: str) -> None:
    if "pid" in row:
        seen.apps.append((row.get("uuid") or row.get("pci.bus_id") or "", _app(row)))
        return
    index = _index(seen, row)
    again = seen.times[index] = seen.times.get(index, -1) + 1
    values = {k: value_of(k, v) for k, v in row.items() if k not in SHOWN}
    driver = value_of("driver_version", row.get("driver_version"))
    if isinstance(driver, str):
        seen.host["driver_version"] = driver
    seen.readings.append(
        GpuReading(index, _time(row.get("timestamp", ""), again), None, with_mask(values), source, number)
    )


def _index(seen: Seen, row: dict[str, str]) -> int:
    """The card: by its index, else by its id, else the next place in a print of equal rows."""
    text = row.get("index", "")
    known = row.get("uuid") or row.get("pci.bus_id") or ""
    if text.isdigit() and len(text) < 6:
        seen.order.setdefault(known, int(text))
        return int(text)
    if known:
        return seen.order.setdefault(known, len(seen.order))
    count = row.get("count", "")
    cards = int(count) if count.isdigit() and 0 < len(count) < 4 and count != "0" else 1
    return len(seen.readings) % cards


def _app(row: dict[str, str]) -> dict[str, Any]:
    memory = row.get("used_memory", row.get("used_gpu_memory"))
    return {
        "pid": int(row["pid"]) if row["pid"].isdigit() and len(row["pid"]) < 12 else None,
        "name": (row.get("process_name") or row.get("name") or "")[:300],
        "used_memory": value_of("used_memory", memory),
    }


def _give(seen: Seen) -> None:
    """Each process to its card; to the host when its card is not known."""
    if not seen.apps:
        return
    mine: dict[int, list[dict[str, Any]]] = {}
    homeless = []
    for card, process in seen.apps:
        if card in seen.order:
            mine.setdefault(seen.order[card], []).append(process)
        else:
            homeless.append(process)
    if homeless:
        seen.host["gpu_processes"] = homeless
    else:
        seen.readings = [replace(r, values={**r.values, "processes": mine.get(r.index, [])}) for r in seen.readings]


def _time(text: str, again: int) -> float:
    """`2026/05/21 22:12:00.123` as seconds; without it the place among the prints."""
    for form in ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S"):
        try:
            return datetime.strptime(text, form).replace(tzinfo=timezone.utc).timestamp()
        except ValueError:
            continue
    return float(again)
