"""Many hosts at a terminal: one line each, gravest first; those that are well are only counted."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from dflash_doctor.formats.check import GRAVITY, Checked, CheckFile
from dflash_doctor.report.figures import counted
from dflash_doctor.report.hosttext import plain
from dflash_doctor.report.layout import entry, hang, text_of
from dflash_doctor.report.terminal import NARROWEST, VERDICT_STYLE, WIDEST
from dflash_doctor.report.words import sure

WELL = ("healthy", "minor")
NAMES, COLUMN = 6, 24  # hosts named of those that are well; the widest column of names


def render(c: CheckFile, *, width: int, color: bool = False, encoding: str = "utf-8") -> str:
    """The whole summary as text."""
    return text_of(lines(c, width), color=color, encoding=encoding)


def lines(c: CheckFile, width: int) -> list[Text]:
    """The summary line by line: what to look at first, then what is well, then the count."""
    width = min(max(width, NARROWEST), WIDEST)
    ill = [h for h in c.hosts if h.verdict not in WELL]
    out: list[Text] = []
    column = min(max((cell_len(plain(h.name)) for h in ill), default=0), COLUMN)
    for verdict in GRAVITY:
        rows = [h for h in ill if h.verdict == verdict]
        if rows:
            out.append(Text(verdict.replace("_", " "), style=VERDICT_STYLE.get(verdict, "bold magenta")))
        for h in rows:
            out += entry(plain(h.name), _told(h), column, width, "  ", "bold")
    for well in WELL:
        names = [plain(h.name) for h in c.hosts if h.verdict == well]
        if names:
            more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
            out += hang(f"{', '.join(names[:NAMES])}{more}", width, f"{well}: ")
    return [*out, *hang(tally(c), width)]


def _told(h: Checked) -> Text:
    """What a host's own report begins with, its first cause, and what its siblings say."""
    text = Text(said(h))
    if h.loud:
        text.append(f"\n{h.loud[0].cause}, {sure(h.loud[0].confidence or 0.0)}: {plain(h.loud[0].summary)}")
    if h.beside:
        text.append(f"\n{plain(h.beside)}")
    return text


def said(h: Checked) -> str:
    """The sentence of a host without the word of its verdict, which stands elsewhere."""
    word = h.verdict.replace("_", " ")
    return plain(h.says).removeprefix(f"{word}: ").strip() or word


def tally(c: CheckFile) -> str:
    """`3 hosts in 12 s: 1 regressed, 2 healthy`."""
    found = [f"{c.count(v)} {v.replace('_', ' ')}" for v in GRAVITY if c.count(v)]
    before = sum(h.taken_up for h in c.hosts)
    taken = f" ({before} of them before it was interrupted)" if before else ""
    return f"{counted(len(c.hosts), 'host')} in {c.seconds:.0f} s{taken}: {', '.join(found) or 'nothing to look at'}"


def hand(rows: Sequence[tuple[str, str, float]], done: int, total: int, latest: Sequence[Checked], height: int) -> Text:
    """The live view: how far it is, who is in hand and since when, the gravest so far."""
    text = Text(f"{done} of {counted(total, 'host')}")
    room = max(height - 2, 3)
    ill = latest[: room // 2]
    for h in ill:
        text.append("\n  ").append(h.verdict.replace("_", " "), style=VERDICT_STYLE.get(h.verdict, "bold magenta"))
        text.append(f"  {plain(h.name)}  {said(h)[:90]}")
    for name, phase, seconds in rows[: room - len(ill)]:
        text.append(f"\n  {plain(name)}  {plain(phase)}  {seconds:.0f} s", style="dim")
    return text
