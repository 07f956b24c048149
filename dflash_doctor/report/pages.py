"""The pages of `explain`: a rule's own docstring, laid out for a terminal, and the list of all causes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import cleandoc

from rich.text import Text

from dflash_doctor.report.layout import entry, hang, text_of

HEAD = "bold"
WIDTH, WIDEST, NAMES = 80, 88, 30
SECTION = "## "
KEPT = re.compile(r"(?:[-*] |\s|\$ )")  # list items and indented lines keep their line breaks


def page(docstring: str, *, cause: str = "", width: int | None = None, color: bool = False) -> str:
    """One rule's page: the fault said aloud, then its five sections."""
    room = min(width or WIDTH, WIDEST)
    out = [Text(cause, style=HEAD)] if cause else []
    lead = ""
    for block in re.split(r"\n[ \t]*\n", cleandoc(docstring)):
        rows = block.splitlines()
        if rows and rows[0].startswith(SECTION):
            out += [Text(), Text(rows.pop(0).removeprefix(SECTION), style=HEAD)]
            lead = "  "
        elif lead:
            out.append(Text())
        for paragraph in _paragraphs(rows):
            out += hang(paragraph, room, lead)
    return text_of(out, color=color)


def _paragraphs(rows: list[str]) -> list[str]:
    """Lines joined to paragraphs, except those that are meant to stand alone."""
    out: list[str] = []
    for row in rows:
        if out and not KEPT.match(row):
            out[-1] = f"{out[-1]} {row}"
        else:
            out.append(row)
    return out


def contents(pages: Mapping[str, str], *, width: int | None = None, color: bool = False) -> str:
    """Every cause with the first line of its page, by family."""
    room = min(width or WIDTH, WIDEST)
    column = min(max(map(len, pages), default=0), NAMES)
    out: list[Text] = []
    family = ""
    for cause, doc in pages.items():
        before, family = family, cause.split(".")[0]
        title = (cleandoc(doc).splitlines() or [""])[0]
        out += [*([Text()] if before not in ("", family) else []), *entry(cause, title, column, room)]
    return text_of(out, color=color)
