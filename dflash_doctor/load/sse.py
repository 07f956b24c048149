"""Server-sent events from raw bytes: each event with the time at which its last byte came.

Bytes are stamped as they are read and understood only afterwards, so that parsing never delays a stamp. Lines end in
LF, CR LF or CR; comments and keep-alives carry nothing; a character cut by a chunk border is whole again once joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

Stamped = tuple[float, bytes]  # seconds on the client's monotonic clock, bytes as they came

END = re.compile(rb"\r\n|\n|\r")
LF = 10


def events(chunks: Iterable[Stamped]) -> Iterator[tuple[float, bytes]]:
    """The `data:` of each event, its lines joined, with the time of the chunk that completed it."""
    rest = iter(chunks)
    for at, raw in rest:
        # what nearly every chunk is: one event of one line
        if raw.find(b"\n") != len(raw) - 2 or raw[:6] != b"data: " or raw[-1] != LF or b"\r" in raw:
            yield from _cut_anywhere(chain([(at, raw)], rest))
            return
        yield at, raw[6:-2]


def _cut_anywhere(chunks: Iterable[Stamped]) -> Iterator[tuple[float, bytes]]:
    data: list[bytes] = []
    last = 0.0
    for last, line in lines(chunks):
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            yield last, b"\n".join(data)
            data = []
    if data:  # a server that closes without the last empty line
        yield last, b"\n".join(data)


def lines(chunks: Iterable[Stamped]) -> Iterator[Stamped]:
    """Each line with the time of the chunk that ended it, the last one also when nothing ended it."""
    begun: list[bytes] = []  # joined once it ends: a line of many chunks costs no more than its length
    at, after_cr = 0.0, False
    for at, raw in chunks:
        # a CR ends its line at once, so that no event is stamped late; the LF of its pair is then no line of its own
        rest = raw[1:] if after_cr and raw.startswith(b"\n") else raw
        after_cr = raw.endswith(b"\r") if raw else after_cr
        *whole, tail = END.split(rest)
        for part in whole:
            yield at, b"".join((*begun, part))
            begun.clear()
        begun.append(tail)
    if any(begun):
        yield at, b"".join(begun)
