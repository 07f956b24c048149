"""A port on the terminal, as Markdown and as JSON: the launch first, then what it rests on, setting by setting."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from typing import Any

from dflash_doctor.port.nouns import ENGINES, Ported, Row, Status
from dflash_doctor.port.snippets import argv, written

SCHEMA = "dflash-doctor/port/1"
HEADS: dict[Status, str] = {
    "differs": "differs: the launch changes it",
    "risky": "risky: carried over, but it does not mean quite the same there, or not on these cards",
    "default changed": "default changed: nobody set it, the other side does otherwise by itself",
    "carried over": "carried over",
    "needs version": "needs a later version",
    "no equivalent": "no equivalent",
    "unknown": "not known to the map: carried through as it stands",
    "already so": "already so",
}
SETTING = 32  # characters of the column of names


def terminal(p: Ported, form: str = "shell", width: int = 100) -> str:
    """Plain text for people."""
    parts = [title(p), "", written(p.launch, form), summary(p), ""]
    parts += [f"! {printable(c)}" for c in p.clashes]
    parts += [*_notes(p), *([""] if p.clashes or p.notes or p.gaps else ())]
    for status, rows in groupby(p.rows, key=lambda r: r.status):
        parts += [HEADS[status], *(line for r in rows for line in _lines(r, width)), ""]
    return "\n".join(parts).rstrip() + "\n"


def title(p: Ported) -> str:
    """`SGLang -> vLLM 0.20.1: qwen3.6-27b.a6000x2.sglang-mtp, held against ./examples/a6000-dflash-4x`."""
    was = f"{ENGINES[p.engine]} {p.version or ''}".strip()
    against = f", held against {printable(p.against)}" if p.against else ""
    return f"{was} -> {ENGINES[p.launch.engine]} {p.launch.version}: {printable(p.name)}{against}"


def summary(p: Ported) -> str:
    """What there is to do, in one line."""
    acts = sum(r.acts for r in p.rows)
    so = len(p.of("already so"))
    none = len(p.of("no equivalent"))
    unknown = len(p.of("unknown"))
    words = [f"{acts} to carry over or change", f"{so} already so"]
    words.append(f"{none} without an equivalent" if none else "none without an equivalent")
    if unknown:
        words.append(f"{unknown} not known to the map")
    return ", ".join(words)


def _notes(p: Ported) -> Iterator[str]:
    for note in p.notes:
        yield f"note: {printable(note)}"
    for gap in p.gaps:
        yield f"not seen: {printable(gap.what)}: {printable(gap.why)}"


def _lines(r: Row, width: int) -> Iterator[str]:
    """One row: the setting and both sides, then what to write, then why."""
    sides = f"was {said(r.tuned, r.tuned_by)}" + (f"; is {said(r.now, r.now_by)}" if r.now is not None else "")
    yield from _wrapped(f"{printable(r.title):<{SETTING}}  {sides}", width, "  ", " " * (SETTING + 4))
    if r.needs and r.status != "already so":
        yield from _wrapped(f"write {printable(r.needs)}", width, "      ", "            ")
    if r.why:
        yield from _wrapped(printable(r.why), width, "      ", "      ")


def _wrapped(text: str, width: int, first: str, then: str) -> list[str]:
    return textwrap.wrap(
        text, max(60, width), initial_indent=first, subsequent_indent=then, break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def said(value: Any, by: str) -> str:
    """`0.85 (set)`, `on (default)`, `not set`."""
    if value is None or by == "not set":
        return "not set" if value is None else shown(value)
    return f"{shown(value)} ({by})"


def shown(value: Any) -> str:
    """A value for people."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (tuple, list)):
        text = " ".join(str(v) for v in value)
        return printable(text if len(text) <= 60 else text[:57] + "...")
    if isinstance(value, float):
        return f"{value:g}"
    text = printable(value)
    return text if len(text) <= 80 else text[:77] + "..."


def printable(text: object) -> str:
    """One line of characters that print; what a host wrote can neither restyle a terminal nor reorder a line."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(text)[:2000])


# -- Markdown, JSON ---------------------------------------------------------------------------------------------------


def markdown(p: Ported, form: str = "shell") -> str:
    """For an issue or a wiki page."""
    fence = "sh" if form == "shell" else "yaml"
    lines = [f"## {title(p)}", "", f"```{fence}", written(p.launch, form).rstrip(), "```", "", f"{summary(p)}.", ""]
    lines += [f"* **contradiction:** {_cell(c)}" for c in p.clashes]
    lines += [f"* {_cell(n)}" for n in _notes(p)]
    lines += ["", "| setting | was | is | needs | status | why |", "|---|---|---|---|---|---|"]
    for r in p.rows:
        cells = (r.title, said(r.tuned, r.tuned_by), said(r.now, r.now_by), r.needs, r.status, r.why)
        lines.append("| " + " | ".join(_cell(c) for c in cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(text: object) -> str:
    return printable(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")


def as_json(p: Ported) -> str:
    """For programs; schema name inside."""
    document = {
        "schema": SCHEMA,
        "tuned": {"name": p.name, "engine": p.engine, "version": p.version},
        "to": {"engine": p.launch.engine, "version": p.launch.version},
        "against": p.against,
        "launch": {
            "command": argv(p.launch),
            "configs": p.launch.configs,
            "env": p.launch.env,
            "unknown": [list(w) for w in p.launch.unknown],
            "secrets": [list(s) for s in p.launch.secrets],
            "gpus": p.launch.gpus,
        },
        "rows": [asdict(r) for r in p.rows],
        "clashes": list(p.clashes),
        "notes": list(p.notes),
        "gaps": [asdict(g) for g in p.gaps],
    }
    return json.dumps(document, indent=1, default=str) + "\n"
