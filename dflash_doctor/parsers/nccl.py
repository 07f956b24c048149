"""nccl.log: how the GPUs talk to each other, as NCCL tells with NCCL_DEBUG=INFO, and what nccl-tests measured.

    node-a:1201:1460 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
    node-a:1201:1460 [0] transport/p2p.cc:270 NCCL WARN Cuda failure 'peer access is not supported …'
         1048576        262144     float     sum      -1   4283.4    0.24    0.43      0   4266.3    0.25    0.43      0

The lines are data/nccl_signals.yaml; the prefix is written by src/debug.cc of NCCL, a date before it since 2.26. Where
NCCL writes between an engine's own lines, the log's parser reads it; `parse_lines` is for any other place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import yaml

from dflash_doctor import paths, settings
from dflash_doctor.model import Evidence, Facts, Setting, Signal, Unreadable
from dflash_doctor.parsers.logs.templates import template
from dflash_doctor.parsers.texts import refuse_binary

READS: tuple[str, ...] = ("nccl.log",)

LONGEST = 2000  # characters of a line that are looked at; a ring of 512 ranks has 2,000
PREFIX = re.compile(
    r"[\w.-]{1,80}:\d{1,10}:\d{1,10} \[(?P<gpu>\d{1,4})\] (?:(?P<where>[\w./-]{1,80}:\d{1,6}) )?"
    r"NCCL (?P<level>INFO|WARN|TRACE|ABORT|CALL) ?(?P<body>.*)"
)
# NCCL version 2.16.2+cuda11.2        (NCCL_DEBUG=VERSION, and rank 0 of older releases: no prefix)
BARE_VERSION = re.compile(r"(?:^|\s)NCCL version \d{1,3}\.\d{1,3}\.\d{1,3}")
# nccl-tests: size, count, type, redop, root, then time, algbw, busbw, #wrong out of place and the same in place
ROW = re.compile(
    r"\s*(?P<size>\d{1,15})\s+(?P<count>\d{1,15})\s+(?P<type>[a-z]\w{2,15})\s+(?P<op>[a-z]{3,8}|none)\s+-?\d{1,6}\s+"
    r"(?P<time>[\d.]{1,15})\s+(?P<algbw>[\d.]{1,12})\s+(?P<busbw>[\d.]{1,12})\s+(?P<wrong>\S{1,12})"
    r"(?:\s+(?P<time_in>[\d.]{1,15})\s+(?P<algbw_in>[\d.]{1,12})\s+(?P<busbw_in>[\d.]{1,12}))?"
)
# # Avg bus bandwidth    : 0.80332
AVERAGE = re.compile(r"# Avg bus bandwidth\s{0,20}: (?P<busbw>[\d.]{1,15})")
# NET/IB/0(3)/GDRDMA: which adapter is not how
ADAPTER = re.compile(r"/\d{1,4}(?:\(\d{1,4}\))?(?=/|$)")


@dataclass(frozen=True)
class Known:
    """One row of nccl_signals.yaml."""

    id: str
    mark: str
    pattern: re.Pattern[str]
    level: str
    topics: tuple[str, ...]


@cache
def known() -> tuple[Known, ...]:
    """The rows, in the file's order."""
    rows = yaml.safe_load(paths.data("nccl_signals.yaml").read_text(encoding="utf-8"))["signals"]
    return tuple(Known(r["id"], r["mark"], re.compile(r["regex"]), r["level"], tuple(r["topics"])) for r in rows)


def parse(text: str, source: str) -> Facts:
    """What NCCL and nccl-tests say in a file of their own. Raises Unreadable when it has none of their lines."""
    refuse_binary(text, "output of NCCL")
    facts = parse_lines(enumerate(text.splitlines(), 1), source)
    if not facts.signals and not facts.host:
        raise Unreadable("no line of NCCL in it; NCCL writes with NCCL_DEBUG=INFO")
    return facts


def parse_lines(lines: Iterable[tuple[int, str]], source: str) -> Facts:
    """What numbered lines say, wherever they were found."""
    signals: list[Signal] = []
    tests: list[dict[str, Any]] = []
    average = None
    for number, raw in lines:
        line = raw[:LONGEST]
        if "NCCL" in line:
            found = _signal(line, number, source)
            if found is not None:
                signals.append(found)
        elif found_row := ROW.match(line):
            tests.append(_row(found_row))
        elif line.startswith("# Avg") and (said := AVERAGE.match(line)):
            average = _number(said["busbw"])
    host: dict[str, Any] = {"nccl_tests": tests, "nccl_tests_busbw": average, **_host(signals)}
    kept = _grouped(signals)
    return Facts(signals=kept, settings=_settings(kept), host={k: v for k, v in host.items() if v})


def _signal(line: str, number: int, source: str) -> Signal | None:
    """What one line says; None for a line of the engine that only speaks of NCCL, and for NCCL's small talk."""
    said = PREFIX.search(line)
    if said is None and not BARE_VERSION.search(line):
        return None
    body = said["body"] if said else line[line.index("NCCL version") :]
    where, rank = Evidence(source, line.strip(), number), (f"GPU {said['gpu']}",) if said else ()
    for row in known():
        found = row.pattern.search(body) if row.mark in body else None
        if found is not None:
            fields = {k: v for k, v in found.groupdict().items() if v is not None}
            return Signal(row.id, where, row.level, fields, row.topics, ranks=rank, template=template(body))
    if said and said["level"] in ("WARN", "ABORT") and body.strip():
        return Signal("nccl.warning", where, "WARNING", {"said": body.strip()}, ("nccl_error",), ranks=rank,
                      template=template(body))  # fmt: skip
    return None


def _row(found: re.Match[str]) -> dict[str, Any]:
    """One message size of nccl-tests; bandwidths in GB/s, times in microseconds."""
    row: dict[str, Any] = {"size": int(found["size"]), "type": found["type"], "op": found["op"]}
    for name in ("time", "algbw", "busbw", "time_in", "algbw_in", "busbw_in"):
        value = _number(found[name])
        if value is not None:
            row[name] = value
    if found["wrong"].isdigit() and int(found["wrong"]) > 0:
        row["wrong"] = int(found["wrong"])
    return row


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _host(signals: list[Signal]) -> Mapping[str, Any]:
    """How many channels take which way, and how many channels there are."""
    ways = Counter(ADAPTER.sub("", s.fields["transport"]) for s in signals if s.id == "nccl.transport")
    channels = [int(s.fields["channels"]) for s in signals if s.id == "nccl.ring"]
    return {"nccl_transports": dict(ways), "nccl_channels": max(channels, default=None)}


def _grouped(signals: list[Signal]) -> tuple[Signal, ...]:
    """Lines that say the same are one signal with a count, whichever ranks said them; each way is its own."""
    first: dict[tuple[str, ...], Signal] = {}
    for s in signals:
        way = ADAPTER.sub("", s.fields.get("transport", ""))
        key = (s.id, way) if way else (s.id, s.template, s.fields.get("name", ""), s.fields.get("value", ""))
        seen = first.get(key)
        if seen is None:
            first[key] = replace(s, template=f"via {way}") if way else s
        elif len(seen.ranks) < 64:
            ranks = tuple(dict.fromkeys((*seen.ranks, *s.ranks)))
            first[key] = replace(seen, count=seen.count + 1, last_line=s.evidence.line, ranks=ranks)
        else:
            first[key] = replace(seen, count=seen.count + 1, last_line=s.evidence.line)
    return tuple(first.values())


def _settings(signals: tuple[Signal, ...]) -> tuple[Setting, ...]:
    """The library's version, and the variables it obeys."""
    found = [
        Setting("comm.nccl_version", s.fields["version"], "effective", "NCCL version", s.evidence)
        for s in signals
        if s.id == "nccl.version"
    ][:1]
    said = {s.fields["name"]: s for s in signals if s.id == "nccl.env"}
    obeyed = settings.from_environ(
        "", {n: s.fields["value"] for n, s in said.items()}, None, {n: s.evidence for n, s in said.items()}
    )
    return (*found, *(replace(s, said="effective") for s in obeyed))
