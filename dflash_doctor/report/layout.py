"""Lines of styled text that fit a width: paragraphs that hang, columns, bars. The only place that counts cells.

Built by hand on rich's Text: rich's tables pad every line with spaces and crop what must stay whole to be copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

RULER = Console(file=StringIO(), width=80)  # rich wraps text only with a console at hand; nothing is printed on it
FULL, LOST = "█", "░"
# letters for terminals and pipes that cannot say ours
LOOKALIKES = str.maketrans(f"{FULL}{LOST}…·", "#.~*")


def hang(body: Text | str, width: int, lead: str = "", style: str = "") -> list[Text]:
    """A paragraph whose first line begins with `lead` and whose others stand under its first letter."""
    text = Text(body, style=style) if isinstance(body, str) else body
    room = max(width - cell_len(lead), 10)
    rows = text.wrap(RULER, room, overflow="fold") or [Text()]
    out = []
    for i, row in enumerate(rows):
        row.rstrip()
        line = Text(lead if i == 0 else " " * cell_len(lead))
        out.append(line.append_text(row))
    return out


def entry(name: str, body: Text | str, column: int, width: int, lead: str = "", style: str = "") -> list[Text]:
    """A name in a column and a paragraph beside it; a name too long for the column has lines of its own."""
    out: list[Text] = []
    if cell_len(name) > column:
        out, name, lead = hang(name, width, lead, style), "", " " * cell_len(lead)
    rows = hang(body, width, f"{lead}{name}{' ' * (column - cell_len(name) + 2)}")
    rows[0].stylize(style, len(lead), len(lead) + len(name))
    return [*out, *rows]


def whole(text: str, lead: str = "", style: str = "") -> list[Text]:
    """One line that is never broken, so that it can be copied."""
    return [Text(lead).append(text, style=style)]


def columns(rows: Iterable[Sequence[str]], widths: Sequence[int], lead: str = "") -> list[Text]:
    """A table without rules; cells that are too wide end in …"""
    out = []
    for row in rows:
        line = Text(lead)
        for i, (cell, width) in enumerate(zip(row, widths, strict=False)):
            text = Text(cell)
            last = i == len(row) - 1
            text.truncate(width, overflow="ellipsis", pad=not last)
            line.append_text(text).append("" if last else "  ")
        line.rstrip()
        out.append(line)
    return out


def widest(rows: Sequence[Sequence[str]], room: int, least: int = 6) -> list[int]:
    """Column widths: what the cells need, the widest ones cut back first until all fit."""
    if not rows:
        return []
    need = [max(cell_len(r[i]) for r in rows) for i in range(len(rows[0]))]
    room -= 2 * (len(need) - 1)
    while sum(need) > room and max(need) > least:
        need[need.index(max(need))] -= 1
    return need


def bar(begin: float, end: float, length: int) -> str:
    """A bar that shrank (or grew) from `begin` to `end`, both shares of `length`; the difference is shaded."""
    low, high = sorted((round(begin * length), round(end * length)))
    low = max(low, 1)
    return FULL * low + LOST * max(high - low, 0)


def text_of(lines: Sequence[Text], *, color: bool, encoding: str = "utf-8") -> str:
    """The lines as one string, with or without colour, in letters that the encoding knows."""
    out = StringIO()
    console = Console(
        file=out, force_terminal=color, color_system="standard" if color else None, no_color=not color,
        highlight=False, markup=False, emoji=False, legacy_windows=False, width=80,
    )  # fmt: skip
    for line in lines:
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    return spoken(out.getvalue(), encoding)


def spoken(text: str, encoding: str) -> str:
    """The text in letters that an encoding has: look-alikes for ours, escapes for what a host wrote."""
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        seen = text.translate(LOOKALIKES)
        return seen.encode(encoding, errors="backslashreplace").decode(encoding)
