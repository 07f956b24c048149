"""The plain `nvidia-smi` table and `nvidia-smi -L`.

    |   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                   On |
    | N/A   34C    P0            148W /  700W |                  N/A   |     N/A      Default |
    |                                         |                        |              Enabled |
    |  0   13   0   0  |           18034MiB / 20096MiB    | 16      0 |  1   0    1    0    1 |     (MIG devices)
    |    0   N/A  N/A            90112      C   python3                               29590MiB |     (processes)

Three lines a card since driver 450, two before. A name too long for its column is cut with dots; a cut name is no name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dflash_doctor.model import Facts, Gap, GpuReading
from dflash_doctor.parsers.card_values import value_of

LONGEST = 400  # characters of a table line; the table is 91 wide
# | NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
TOP = re.compile(
    r"NVIDIA-SMI \S+ +(?:Driver|KMD) Version: (?P<driver>[\d.]+)(?: +CUDA (?:UMD )?Version: (?P<cuda>[\d.]+))?"
)
# 0  NVIDIA H100 80GB HBM3          On        and   00000000:1B:00.0 Off
CARD = re.compile(r"(?P<index>\d{1,3}) +(?P<name>\S.{0,80}?) +(?P<persistence>On|Off|N/A)")
BUS = re.compile(r"(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])")
# N/A   34C    P0            148W /  700W     (ERR! stands for any of them)
HEAT = re.compile(r"(?P<fan>\S+) +(?P<temp>\S+) +(?P<pstate>\S+) +(?P<draw>\S+) */ *(?P<limit>\S+)")
# 18034MiB / 20096MiB
MEMORY = re.compile(r"(?P<used>\d+[KMG]?i?B) */ *(?P<total>\d+[KMG]?i?B)")
# 0   N/A  N/A            90112      C   python3                               29590MiB
PROCESS = re.compile(
    r"(?P<gpu>\d{1,3}) +(?:(?:N/A|\d+) +(?:N/A|\d+) +)?(?P<pid>\d{1,10}) +(?P<type>C\+G|M\+C|C|G) +"
    r"(?P<name>\S.{0,200}?) +(?P<memory>\d+MiB|N/A)"
)
# 0   13   0   0
MIG = re.compile(r"(?P<gpu>\d{1,3}) +(?P<gi>\d{1,3}) +(?P<ci>\d{1,3}) +(?P<dev>\d{1,3})")
# GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d…)     and     MIG 3g.20gb     Device  0: (UUID: MIG-6b…)
LISTED = re.compile(r"GPU (?P<index>\d{1,3}): (?P<name>.{1,80}?) \(UUID: (?P<uuid>[\w./-]{1,80})\)")
LISTED_SLICE = re.compile(r"\s+MIG (?P<profile>\S{1,30}) +Device +(?P<dev>\d{1,3}): \(UUID: (?P<uuid>[\w./-]{1,80})\)")


@dataclass
class Print:
    """One table while it is read."""

    number: int
    cards: dict[int, dict[str, Any]] = field(default_factory=dict)
    lines: dict[int, int] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    section: str = "cards"
    last: int | None = None


def table(text: str, source: str) -> Facts:
    """Every table of the text; one printed again and again (`-l`, watch) gives one reading a card and print."""
    if "NVIDIA-SMI" not in text:
        return Facts()
    host: dict[str, Any] = {}
    slices: list[str] = []
    prints = [Print(0)]
    for number, line in enumerate(text.splitlines(), 1):
        line = line[:LONGEST].strip()
        top = TOP.search(line)
        if top:
            host["driver_version"] = top["driver"]
            if top["cuda"]:
                host["cuda_version"] = top["cuda"]
            if prints[-1].cards:
                prints.append(Print(len(prints)))
        elif line.startswith("|"):
            _row(prints[-1], [c.strip() for c in line.strip("|").split("|")], number, source, slices)
    if slices:
        host["mig_devices"] = list(dict.fromkeys(slices))
    readings = [r for p in prints for r in _readings(p, source)]
    return Facts(readings=tuple(readings), host=host, gaps=tuple(dict.fromkeys(g for p in prints for g in p.gaps)))


def _readings(p: Print, source: str) -> Iterator[GpuReading]:
    for index, values in p.cards.items():
        yield GpuReading(index, float(p.number), None, values, source, p.lines[index])


def _row(p: Print, cells: list[str], number: int, source: str, slices: list[str]) -> None:
    """One line between bars."""
    if cells[0].startswith("MIG devices:"):
        p.section = "mig"
    elif cells[0].startswith("Processes:"):
        p.section = "processes"
    elif p.section == "processes":
        _process(p, cells[0])
    elif p.section == "mig":
        found = MIG.fullmatch(cells[0])
        if found and len(cells) > 2:
            sms = cells[2].split()[0] if cells[2] else "?"
            slices.append(f"GPU {found['gpu']} MIG device {found['dev']}: {sms} multiprocessors, {cells[1]}")
    elif len(cells) >= 3:
        _card(p, cells, number, source)


def _card(p: Print, cells: list[str], number: int, source: str) -> None:
    first, bus = CARD.fullmatch(cells[0]), BUS.search(cells[1])
    if first and bus:
        p.last = int(first["index"])
        p.lines[p.last] = number
        values = p.cards[p.last] = {"pci.bus_id": bus["bus"], "persistence_mode": _on(first["persistence"])}
        if first["name"].endswith(".."):
            p.gaps.append(Gap(f"{source}: name of GPU {p.last}", f"cut to fit its column: {first['name']}"))
        else:
            values["name"] = first["name"]
        return
    if p.last is None:
        return
    values = p.cards[p.last]
    heat = HEAT.fullmatch(cells[0])
    if heat:
        for key, name in (
            ("fan.speed", "fan"), ("temperature.gpu", "temp"), ("pstate", "pstate"), ("power.draw", "draw"),
            ("power.limit", "limit"),
        ):  # fmt: skip
            values[key] = value_of(key, heat[name])
        memory = MEMORY.fullmatch(cells[1])
        values["memory.used"] = value_of("memory.used", memory["used"] if memory else cells[1])
        values["memory.total"] = value_of("memory.total", memory["total"] if memory else cells[1])
        busy = cells[2].split()
        if busy:
            values["utilization.gpu"] = value_of("utilization.gpu", busy[0])
            values["compute_mode"] = " ".join(busy[1:]) or None
    elif not cells[0] and cells[2] in ("Enabled", "Disabled", "Enabled*", "Disabled*", "N/A"):
        values["mig.mode.current"] = value_of("mig.mode.current", cells[2].rstrip("*"))


def _process(p: Print, cell: str) -> None:
    if cell.startswith("No running processes"):
        for values in p.cards.values():
            values.setdefault("processes", [])
    found = PROCESS.fullmatch(cell)
    if found and int(found["gpu"]) in p.cards:
        for values in p.cards.values():
            values.setdefault("processes", [])
        p.cards[int(found["gpu"])]["processes"].append(
            {
                "pid": int(found["pid"]),
                "name": found["name"],
                "type": found["type"],
                "used_memory": value_of("used_memory", found["memory"]),
            }
        )


def _on(word: str) -> str | None:
    return {"On": "Enabled", "Off": "Disabled"}.get(word)


def listed(text: str, source: str) -> Facts:
    """`nvidia-smi -L`: names, ids and slices."""
    readings: list[GpuReading] = []
    slices: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        gpu = LISTED.match(line[:LONGEST])
        if gpu:
            values = {"name": gpu["name"], "uuid": gpu["uuid"]}
            readings.append(GpuReading(int(gpu["index"]), 0.0, None, values, source, number))
        elif readings and (cut := LISTED_SLICE.match(line[:LONGEST])):
            slices.append(f"GPU {readings[-1].index} MIG device {cut['dev']}: {cut['profile']}")
    return Facts(readings=tuple(readings), host={"mig_devices": slices} if slices else {})
