"""A diagnosis laid out for the template: the words of report/words.py in rows, lines cut where no person reads on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dflash_doctor.gpu_words import event_reasons
from dflash_doctor.model import Diagnosis, Evidence, Finding, GpuReading, Snapshot
from dflash_doctor.report import left, receipt, words
from dflash_doctor.report.figures import number
from dflash_doctor.report.hosttext import COMMON, excerpt, pattern, plain, telling
from dflash_doctor.report.html.pictures import pictures

LINE = 600  # characters of one log line
EVIDENCE, ROWS, GPUS = 20, 200, 64  # rows shown, the rest is counted: a page that opens at once


@dataclass(frozen=True)
class Table:
    """Rows under a title, `more` of them left out; `code`: columns that hold a host's text or what to type."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int = 0
    code: tuple[int, ...] = ()


def content(d: Diagnosis) -> Mapping[str, Any]:
    """What the template shows, section by section; empty sections are left out there."""
    calm = d.verdict in ("healthy", "not_comparable")
    return {
        "verdict": d.verdict.replace("_", " "),
        "kind": d.verdict,
        "headline": words.verdict(d).partition(": ")[2],
        "title": f"{plain(d.target)}: {d.verdict.replace('_', ' ')}",
        "about": words.about(d),
        "receipt": receipt.sentence(d.slowdown) if d.slowdown and d.slowdown.parts and not calm else "",
        "bars": receipt.waterfall(d) if not calm else (),
        "receipt_notes": receipt.notes(d) if not calm else (),
        "findings": [_finding(d, f, rank) for rank, f in enumerate(d.findings, 1)],
        "loud": len(words.loud(d)),
        "unexplained": [(left.unexplained(u), left.suspects(u)) for u in d.unexplained],
        "leads": left.differences(d.leads[:ROWS]),
        "plan": left.plan(d),
        "pictures": pictures(d),
        "then": words.then(d),
        "tables": [t for t in _tables(d) if t.rows],
        "links": _links(d.now),
        "fresh": [
            (words.warning(s), s.level.lower(), excerpt(s.evidence.text, LINE, {})) for s in d.comparison.fresh[:ROWS]
        ],
        "notes": [plain(n) for n in d.notes],
        "gaps": [(plain(g.what), plain(g.why)) for g in d.gaps],
        "tally": words.tally(d),
        "sources": words.sources(d),
    }


# -- findings ---------------------------------------------------------------------------------------------------------


def _finding(d: Diagnosis, f: Finding, rank: int) -> Mapping[str, Any]:
    steps = [(plain(s), words.is_command(s)) for s in f.next_steps]
    clues = telling(f.summary, f.cause.replace(".", " ").replace("_", " "))
    return {
        "rank": rank,
        "cause": plain(f.cause),
        "severity": f.severity,
        "sure": words.sure(f.confidence),
        "summary": plain(f.summary),
        "share": receipt.share(f, d.slowdown),
        "evidence": [(words.where(e), _marked(e, clues)) for e in f.evidence[:EVIDENCE]],
        "more": max(len(f.evidence) - EVIDENCE, 0),
        "against": [plain(a) for a in f.against],
        "effects": words.effects(f),
        "known": [(words.known(k), k.link if k.link.startswith("https://") else "", k.way_out) for k in f.known],
        "steps": [s for s, command in steps if not command],
        "commands": [s for s, command in steps if command],
    }


def _marked(e: Evidence, clues: Mapping[str, int]) -> list[tuple[str, bool]]:
    """A line in pieces, those that tell most marked."""
    text = excerpt(e.text, LINE, clues)
    found = pattern(w for w, worth in clues.items() if worth > COMMON)
    if found is None:
        return [(text, False)]
    pieces, done = [], 0
    for m in found.finditer(text):
        pieces += [(text[done : m.start()], False), (m.group(), True)]
        done = m.end()
    return [(piece, mark) for piece, mark in (*pieces, (text[done:], False)) if piece]


# -- tables -----------------------------------------------------------------------------------------------------------


def _tables(d: Diagnosis) -> tuple[Table, ...]:
    then = words.then(d)
    deltas = words.moved_first(d.comparison.deltas)
    same = [x for x in d.comparison.deltas if x.verdict == "same"]
    return (
        _table(left.carry_title(d), ("setting", "tuned → now", "write"), left.carry(d), (2,)),
        _table(
            "Numbers", ("number", then, "now", "verdict"),
            [words.number_row(x, d.comparison.deltas) for x in (*deltas, *same)],
        ),
        _table(
            "Settings that differ", ("setting", then, "now"), [words.difference(x) for x in d.comparison.drifts], (1, 2)
        ),
        _table("GPUs", ("GPU", "product", "SM clock", "power", "heat", "memory in use", "held back by"), _gpus(d.now)),
    )  # fmt: skip


def _table(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]], code: tuple[int, ...] = ()) -> Table:
    return Table(title, head, tuple(rows[:ROWS]), max(len(rows) - ROWS, 0), code)


def _gpus(s: Snapshot) -> list[tuple[str, ...]]:
    """Each GPU under load, where readings under load are there, else whenever it was seen."""
    loaded = any(r.load for r in s.readings)
    at: bool | None = True if loaded else None
    clock, power, heat, used = (
        s.gpu_numbers(k, at) for k in ("clocks.sm", "power.draw", "temperature.gpu", "memory.used")
    )
    most, limit, size = (s.gpu_numbers(k, None) for k in ("clocks.max.sm", "power.limit", "memory.total"))
    names = {r.index: r.values.get("name") for r in s.readings}
    rows: list[tuple[str, ...]] = []
    for i in sorted(names)[:GPUS]:
        why = _reasons([r for r in s.readings if r.index == i and (not loaded or r.load)])
        rows.append(
            (
                str(i), plain(names[i] or "not told"), _of(clock.get(i), most.get(i), "MHz"),
                _of(power.get(i), limit.get(i), "W"), _of(heat.get(i), None, "°C"),
                _of(used.get(i), size.get(i), "MiB"), why,
            )
        )  # fmt: skip
    return rows


def _of(value: float | None, most: float | None, unit: str) -> str:
    if value is None:
        return "not seen"
    return f"{number(value)}{f' of {number(most)}' if most else ''} {unit}"


def _reasons(readings: Sequence[GpuReading]) -> str:
    masks = [r.values.get("clocks_event_reasons.active") for r in readings]
    told = [m for m in masks if isinstance(m, (str, int))]
    if not told:
        return "not seen"
    found = dict.fromkeys(word for m in told for word in event_reasons(m))
    return ", ".join(w.replace("_", " ") for w in found) or "nothing"


def _links(s: Snapshot) -> Mapping[str, Any] | None:
    """The links between GPUs as a square, as `nvidia-smi topo -m` shows them."""
    if not s.links:
        return None
    ids = sorted({i for pair in s.links for i in pair})[:GPUS]
    rows = [
        (a, ["" if a == b else plain(s.links.get((a, b), s.links.get((b, a), "?"))) for b in ids]) for a in ids
    ]  # fmt: skip
    return {"ids": ids, "rows": rows}
