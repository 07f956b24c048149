"""A log too large to read line by line -> the lines that say all there is to say in it.

Most lines of a busy server are requests and the engine's periodic figures. A line is passed on when it holds a text
that some known line has, or a word of alarm:

* of lines that differ in numbers only the first few since the last server start, and the last one with their count;
* of the periodic figures every line while they are few, then runs of lines that lie evenly over the whole time since
  the start, so that their medians are those of all; the last one has the count;
* of requests the first behind each line passed on: proof that the server went on serving.

What is held is bounded whatever the length of the log: the oldest server starts are left out first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from dflash_doctor.model import Gap
from dflash_doctor.parsers.logs.finder import Found
from dflash_doctor.parsers.logs.held import EARLIER, Row, Start
from dflash_doctor.parsers.logs.texts import texts_of
from dflash_doctor.parsers.logs.wrapping import Raw, spelled_out

BLOCK = 1 << 20  # bytes searched at once: they stay in the processor's cache
LONGEST_LINE = 4 << 20  # bytes; of a longer one the beginning is read
MOST_STARTS = 48  # a server that crashes and is started again all night; each start is parsed on its own
MOST_ROWS = 40_000  # of all starts together: reading them takes two seconds
MOST_BYTES = 24 << 20
LONG = 8 << 10  # bytes; transports cut lines at 16 KiB, and the rest follows on lines of its own
TOGETHER = 80  # lines of a traceback, a table, a line in parts
POST = b'"POST '
TRIES = 8  # requests that failed before one that did not


class Stream(Protocol):
    """A file, gzip stream or BytesIO."""

    def readinto(self, buffer: Any, /) -> int | None:
        """Fills the buffer from its beginning; how many bytes there were, 0 at the end."""


def blocks(stream: Stream) -> Iterator[bytes]:
    """The stream in blocks of whole lines; copied once, for at this pace every copy counts."""
    buffer = bytearray(BLOCK)
    kept = 0  # bytes of a line whose end was not read yet
    while True:
        if kept == len(buffer):
            if kept < LONGEST_LINE:
                buffer += bytes(BLOCK)
            else:
                kept -= BLOCK  # the rest of an endless line says no more
        with memoryview(buffer) as view, view[kept:] as free:
            read = stream.readinto(free) or 0
        if not read:
            break
        end = kept + read
        cut = buffer.rfind(b"\n", kept, end) + 1
        if cut:
            yield bytes(memoryview(buffer)[:cut])
            kept = end - cut
            buffer[:kept] = buffer[cut:end]
        else:
            kept = end
    if kept:
        yield bytes(buffer[:kept]) + b"\n"


class Reader:
    """Takes the blocks of a log in order; `lines()` afterwards."""

    def __init__(self, engine: str) -> None:
        self._texts = texts_of(engine)
        self._starts = deque([Start()])
        self._left_out = 0  # starts
        self._lines = 0  # before this block
        self._offset = 0
        self._together = 0  # up to this line all are passed on
        self._request: Row | None = None  # the first behind the last line passed on
        self._searched = 0  # of this block, for requests

    def feed(self, block: bytes) -> None:
        """One block of whole lines."""
        block = spelled_out(block)
        found = self._texts.finder.find(block)
        figure = (found.texts >= self._texts.begins) & (found.texts < self._texts.figures)
        taken = following = 0
        others = np.flatnonzero(~figure)
        columns = (others, found.lines[others], found.texts[others], found.starts[others], found.ends[others])
        for at, line, text, start, end in zip(*(column.tolist() for column in columns), strict=True):
            if self._together > self._lines + following:
                self._follow(block, found, following, line)
            following = line + 1
            if text < self._texts.begins:
                self._figures(block, found, figure, slice(taken, at))
                taken = at
                self._begin()
            row = Row(self._offset + start, self._lines + line + 1, block[start:end])
            if self._starts[-1].see(row, text < self._texts.known):
                self._served_until(block, found, start)
                if self._texts.figures <= text < self._texts.together or len(row.text) > LONG:
                    self._together = row.number + TOGETHER
        self._figures(block, found, figure, slice(taken, len(found.texts)))
        self._follow(block, found, following, len(found.newlines))
        self._look_for_request(block, found, len(block))
        self._lines += len(found.newlines)
        self._offset += len(block)
        self._searched = 0

    def lines(self) -> Iterator[Raw]:
        """The lines passed on, each with how many it stands for."""
        if self._request is not None:
            self._starts[-1].keep(self._request)
        for start in self._starts:
            for row in start.rows():
                yield Raw(row.number, row.text.decode("utf-8", "replace"), row.times)

    def gaps(self, source: str) -> tuple[Gap, ...]:
        """What was left out of the log."""
        not_read = sum(start.not_read for start in self._starts)
        why = [f"its first {self._left_out} server starts were left out"] if self._left_out else []
        why += [f"{not_read} warnings, each of other words, were counted only"] if not_read else []
        return (Gap(source, f"{self._lines} lines long: {'; '.join(why)}"),) if why else ()

    # -- one line -----------------------------------------------------------------------------------------------------

    def _row(self, block: bytes, found: Found, line: int) -> Row:
        start = int(found.newlines[line - 1]) + 1 if line else 0
        return Row(self._offset + start, self._lines + line + 1, block[start : int(found.newlines[line])])

    def _follow(self, block: bytes, found: Found, first: int, upto: int) -> None:
        """Lines that nothing is known of, behind one whose continuation they may be."""
        for line in range(first, min(upto, self._together - self._lines)):
            self._starts[-1].keep(self._row(block, found, line))

    def _figures(self, block: bytes, found: Found, figure: np.ndarray, part: slice) -> None:
        which = np.flatnonzero(figure[part]) + part.start
        if len(which):
            numbers = found.lines[which] + (self._lines + 1)
            places = (found.starts[which], found.ends[which], found.texts[which])
            self._starts[-1].figures.see(block, self._offset, numbers, *places)

    # -- requests -----------------------------------------------------------------------------------------------------

    def _served_until(self, block: bytes, found: Found, at: int) -> None:
        """A line at this place is passed on: the first request before it is, too."""
        self._look_for_request(block, found, at)
        if self._request is not None:
            self._starts[-1].keep(self._request)
            self._request = None

    def _look_for_request(self, block: bytes, found: Found, upto: int) -> None:
        if self._request is None:
            line = _request(block, self._searched, upto, found)
            self._request = None if line is None else self._row(block, found, line)
        self._searched = max(self._searched, upto)

    # -- starts -------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """A banner was read. What the starts before it are held with may be less than the last one's."""
        if not len(self._starts[-1]):
            return
        self._starts[-1].figures.thin(EARLIER)
        self._starts.append(Start())
        while len(self._starts) > 2 and self._too_much():
            self._starts.popleft()
            self._left_out += 1

    def _too_much(self) -> bool:
        rows, held = sum(map(len, self._starts)), sum(start.bytes for start in self._starts)
        return len(self._starts) > MOST_STARTS or rows > MOST_ROWS or held > MOST_BYTES


def _request(block: bytes, start: int, upto: int, found: Found) -> int | None:
    """The line of a request that was answered, of the first few between two places."""
    at = start
    for _ in range(TRIES):
        at = block.find(POST, at, upto)
        if at < 0:
            return None
        line = int(np.searchsorted(found.newlines, at))
        end = int(found.newlines[line])
        if block.find(b'" 2', at, end) >= 0:
            return line
        at = end
    return None
