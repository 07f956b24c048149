"""Where the body of an HTTP/1.1 answer ends (RFC 9112 §6, §7): chunked, so many bytes, or until the connection closes.

    4f\\r\\ndata: {"choices": [{"delta": {"content": "a"}}]}\\n\\n\\r\\n 0\\r\\n\\r\\n

A body is fed piece by piece in any cut and each byte is looked at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dflash_doctor.load.sse import Stamped

SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")
MOST_LINE = 4096  # of a size with its extensions, or of one trailer
BLANK = (b"\r\n", b"\n")


class Chunked:
    """A body in chunks. `feed` gives what a piece carries of it; raises ValueError for what is no chunk."""

    def __init__(self) -> None:
        self.ended = False
        self._left = 0  # bytes of the chunk that are still to come
        self._rest = b""  # a line that has begun
        self._line = self._size  # what the next line is

    def feed(self, piece: bytes) -> bytes:
        """The body's own bytes in this piece."""
        if not self._left and not self._rest and self._line == self._size:
            # what nearly every piece is: one chunk
            begin = piece.find(b"\r\n") + 2
            m = SIZE.fullmatch(piece, 0, begin)
            if m is not None and len(piece) == begin + int(m[1], 16) + 2 > begin + 2:
                return piece[begin:-2]
        data, at = (self._rest + piece, 0) if self._rest else (piece, 0)
        self._rest = b""
        found: list[bytes] = []
        while at < len(data) and not self.ended:
            if self._left:
                part = data[at : at + self._left]
                self._left -= len(part)
                at += len(part)
                found.append(part)
                continue
            end = data.find(b"\n", at, at + MOST_LINE) + 1
            if not end:
                if len(data) - at >= MOST_LINE:
                    raise ValueError("a chunk of the answer has no size")
                self._rest = data[at:]
                break
            self._line(data[at:end])
            at = end
        return found[0] if len(found) == 1 else b"".join(found)

    def _size(self, line: bytes) -> None:
        m = SIZE.fullmatch(line)
        if m is None:
            raise ValueError(f"a chunk of the answer has the size {line[:40]!r}")
        self._left = int(m[1], 16)
        self._line = self._gap if self._left else self._trailer

    def _gap(self, line: bytes) -> None:
        if line not in BLANK:
            raise ValueError("a chunk of the answer is longer than its size")
        self._line = self._size

    def _trailer(self, line: bytes) -> None:
        self.ended = line in BLANK


class Sized:
    """A body of so many bytes."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.ended = length == 0

    def feed(self, piece: bytes) -> bytes:
        """The body's own bytes in this piece."""
        part = piece[: self._left]
        self._left -= len(part)
        self.ended = self._left == 0
        return part


class UntilClosed:
    """A body that the end of the connection ends."""

    ended = False

    def feed(self, piece: bytes) -> bytes:
        """All of it."""
        return piece


Framing = Chunked | Sized | UntilClosed
Wrapping = type[Chunked] | type[UntilClosed]  # a length wraps nothing


def unwrapped(pieces: Iterable[Stamped], framing: Framing) -> Iterator[Stamped]:
    """The body's own bytes, stamped as they came. Raises ValueError when they are no such body."""
    for at, raw in pieces:
        if part := framing.feed(raw):
            yield at, part
