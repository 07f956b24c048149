"""What is held of one server start while a large log streams by: bounded, whatever is written to it."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from dflash_doctor.parsers.logs.finder import Places

SAME = 64  # lines that differ in numbers only: eight ranks of eight hosts may each say the same with another number
KEYS = 2_000  # different texts of one start; more are noise that nobody reads
KEY = 200  # bytes by which a text is known
ENOUGH = 10_000  # rows; a start that has more is told by the first line of each kind
FIGURES = 4_096  # periodic figures of the last start, at most: reading them takes a quarter of a second
EARLIER = 1_024  # … of the starts before it
RUN = 64  # figures that follow each other: two lines make a window, windows are judged by their neighbours
LONGEST = 400_000  # bytes of a line; SGLang's arguments have 25 thousand
CUT = 4_000  # bytes of a figure, and of lines once a start has filled its ROOM
ROOM = 4 << 20
# runs are left out by golden-ratio steps: evenly over the time, and in step with no day or night
GOLDEN, WHOLE = 2_654_435_769, 1 << 32
# numbers and the letters of hexadecimal ids: what is left tells one text from another
VARYING = b"0123456789abcdef"


class Row(NamedTuple):
    """One line of the file, and how many lines it stands for."""

    offset: int  # of the line in the file: what puts lines in order
    number: int  # 1-based
    text: bytes
    times: int = 1


class Start:
    """The lines of one server start that are passed on."""

    def __init__(self) -> None:
        self.figures = Figures()
        self.not_read = 0  # lines with words of alarm, beyond what is held
        self._rows: dict[int, Row] = {}  # by offset
        self._seen: dict[bytes, int] = {}
        self._again: dict[bytes, Row] = {}  # the last line of each text that was no longer held
        self.bytes = 0

    def see(self, row: Row, known: bool) -> bool:
        """Whether this line is new enough to be held; `known`: it holds a text of a known line."""
        offset, number, text, _ = row
        key = (b"+" if known else b"-") + text[: 2 * KEY].translate(None, VARYING)[:KEY]
        times = self._seen.get(key, 0) + 1
        if times == 1 and len(self._seen) >= (2 * KEYS if known else KEYS):
            self.not_read += 1
            return False
        self._seen[key] = times
        if times > (SAME if len(self._rows) < ENOUGH else 1):
            again = self._again.get(key)
            self._again[key] = Row(offset, number, text[:CUT], 1 if again is None else again.times + 1)
            return False
        self.keep(row)
        return True

    def keep(self, row: Row) -> None:
        """Holds a line whatever it says."""
        row = row._replace(text=row.text[: LONGEST if self.bytes < ROOM else CUT])
        self.bytes += len(row.text)
        self._rows[row.offset] = row

    def rows(self) -> list[Row]:
        """All that is held, in the order of the file."""
        again = {row.offset: row for row in self._again.values()}
        figures = {row.offset: row for row in self.figures.rows()}
        return sorted({**self._rows, **again, **figures}.values())

    def __len__(self) -> int:
        return len(self._rows) + len(self._again) + len(self.figures)


class Figures:
    """Periodic figures: all of them while they are few, then half, a quarter, an eighth of their runs."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, int, Row]] = []  # rank of the run, which text, the line
        self._end: deque[tuple[int, Row]] = deque(maxlen=RUN)  # the last run, in which a server may have drained
        self._last: dict[int, Row] = {}  # by text
        self._count: dict[int, int] = {}
        self._seen = 0
        self._limit = WHOLE  # of the ranks

    def see(self, block: bytes, offset: int, numbers: Places, starts: Places, ends: Places, texts: Places) -> None:
        """The figures of one block, which begins at `offset` of the file, in order."""
        ranks = np.arange(self._seen, self._seen + len(texts)) // RUN * GOLDEN % WHOLE
        last, counts = dict(zip(texts.tolist(), range(len(texts)), strict=True)), np.bincount(texts).tolist()
        wanted = np.flatnonzero(ranks < self._limit)

        def row(i: int) -> Row:
            start = int(starts[i])
            return Row(offset + start, int(numbers[i]), block[start : min(int(ends[i]), start + CUT)])

        self._kept += [(int(ranks[i]), int(texts[i]), row(i)) for i in wanted.tolist()]
        self._end += [(int(texts[i]), row(i)) for i in range(max(0, len(texts) - RUN), len(texts))]
        for text, i in last.items():
            self._last[text] = row(i)
            self._count[text] = self._count.get(text, 0) + counts[text]
        self._seen += len(texts)
        self.thin(FIGURES)

    def thin(self, most: int) -> None:
        """Leaves out half of the runs until `most` lines are left."""
        while len(self._kept) > max(most, RUN):
            self._limit //= 2
            self._kept = [kept for kept in self._kept if kept[0] < self._limit]

    def rows(self) -> list[Row]:
        """The figures held; the last of each text stands for those that are not."""
        held = {row.offset: (text, row) for text, row in (*(kept[1:] for kept in self._kept), *self._end)}
        rows = {offset: row for offset, (_, row) in held.items()}
        left = dict(self._count)
        for text, _ in held.values():
            left[text] -= 1
        for text, row in self._last.items():
            if left[text]:
                rows[row.offset] = row._replace(times=left[text] + (row.offset in rows))
        return list(rows.values())

    def __len__(self) -> int:
        return len(self._kept) + len(self._end) + len(self._last)
