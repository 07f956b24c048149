"""What the cards themselves count and say about their health: memory, NVLink, a wanted reset, a card that is lost.

    {"link": 7, "active": true, "version": 5, "speed_mb_s": 53125, "remote": "switch", "recovered": 12}

Counters since the driver was loaded tell of history; what grew while we looked is about today. A link that sleeps or is
not wired is no fault: only a card with fewer links than its equals on the same host is an odd one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dflash_doctor.model import Evidence, Gap, GpuReading, Snapshot

# above zero, or said to be pending
COUNTED = (
    "ecc.errors.uncorrected.volatile.total",
    "retired_pages.pending",
    "remapped_rows.pending",
    "remapped_rows.failure",
)
LIFETIME = "ecc.errors.uncorrected.aggregate.total"  # of the card's whole life: news only beside an earlier count
# errors of one NVLink; the second line is NVLink 5's
LINK_ERRORS = (
    "replay", "recovery", "crc_flit", "crc_data",
    "recovered", "recovery_failed", "integrity_errors", "effective_errors",
)  # fmt: skip
# the driver's words for a card that nobody can work with any more
GONE = re.compile(r"GPU is lost|requires re(?:set|start)", re.I)


def card_errors(s: Snapshot) -> tuple[Evidence, ...]:
    """One line for each thing that a card counts, wants, or has lost."""
    return tuple(dict.fromkeys([*_gone(s), *_counted(s), *_wanted(s), *_grown_links(s), *_missing_links(s)]))


def lifetime_grown(now: Snapshot, was: Snapshot) -> tuple[Evidence, ...]:
    """Cards whose lifetime count of uncorrectable errors is higher than it was."""
    before = {str(r.values.get("uuid")): r.values.get(LIFETIME) for r in was.readings}
    found = []
    for r in now.readings:
        count, had = r.values.get(LIFETIME), before.get(str(r.values.get("uuid")))
        if isinstance(count, (int, float)) and isinstance(had, (int, float)) and count > had:
            found.append(Evidence(r.source, f"GPU {r.index}: {LIFETIME} {had:g} -> {count:g}", r.line))
    return tuple(dict.fromkeys(found))


def _counted(s: Snapshot) -> Iterator[Evidence]:
    for r in s.readings:
        for key in COUNTED:
            v = r.values.get(key)
            if (isinstance(v, (int, float)) and v > 0) or (
                isinstance(v, str) and v.lower() in ("yes", "pending", "true")
            ):
                yield Evidence(r.source, f"GPU {r.index}: {key} {v}", r.line)


def _wanted(s: Snapshot) -> Iterator[Evidence]:
    for r in s.readings:
        action = r.values.get("gpu_recovery_action")
        if isinstance(action, str) and action.lower() != "none":
            yield Evidence(r.source, f"GPU {r.index}: gpu_recovery_action {action}", r.line)


def _gone(s: Snapshot) -> Iterator[Evidence]:
    for r in s.readings:
        why = next((v.why for v in r.values.values() if isinstance(v, Gap) and GONE.search(v.why)), None)
        if why is not None:
            yield Evidence(r.source, f"GPU {r.index}: {why}", r.line)


def _links(r: GpuReading) -> list[Mapping[str, Any]]:
    links = r.values.get("nvml.nvlink")
    return [x for x in links if isinstance(x, Mapping)] if isinstance(links, list) else []


def _grown_links(s: Snapshot) -> Iterator[Evidence]:
    first: dict[tuple[int, Any, str], int] = {}
    last: dict[tuple[int, Any, str], tuple[int, GpuReading]] = {}
    for r in s.readings:
        for link in _links(r):
            for name in LINK_ERRORS:
                count = link.get(name)
                if isinstance(count, int) and not isinstance(count, bool):
                    first.setdefault((r.index, link.get("link"), name), count)
                    last[r.index, link.get("link"), name] = count, r
    for (index, number, name), (count, r) in last.items():
        grown = count - first[index, number, name]
        if grown > 0:
            yield Evidence(r.source, f"GPU {index}: NVLink {number} {name} +{grown} while we looked", r.line)


def _missing_links(s: Snapshot) -> Iterator[Evidence]:
    """Cards with fewer active links than their equals; a link counts that was active in any reading."""
    active: dict[int, set[Any]] = {}
    cards: dict[int, GpuReading] = {}
    for r in s.readings:
        if _links(r):
            active.setdefault(r.index, set()).update(x.get("link") for x in _links(r) if x.get("active") is True)
            cards[r.index] = r
    for index, mine in active.items():
        name = cards[index].values.get("name")
        equals = [len(links) for i, links in active.items() if cards[i].values.get("name") == name]
        if len(mine) < max(equals):
            r = cards[index]
            yield Evidence(r.source, f"GPU {index}: {len(mine)} NVLinks active, {max(equals)} on its equals", r.line)
