"""Server-sent events from raw bytes: each event with the time at which its last byte came.

Bytes are stamped as they are read and understood only afterwards, so that parsing never delays a stamp. Lines end in
LF, CR LF or CR; comments and keep-alives carry nothing; a character cut by a chunk border is whole again once joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Stamped = tuple[float, bytes]  # seconds on the client's monotonic clock, bytes as they came


def events(chunks: Iterable[Stamped]) -> Iterator[tuple[float, bytes]]:
    """The `data:` of each event, its lines joined, with the time of the chunk that completed it."""
    rest = b""
    data: list[bytes] = []
    last = 0.0
    for at, raw in chunks:
        last = at
        rest += raw
        # a CR at the very end may be half of a CR LF
        held = b"\r" if rest.endswith(b"\r") else b""
        whole = rest[: len(rest) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, tail = whole.split(b"\n")
        rest = tail + held
        for line in lines:
            if not line:
                if data:
                    yield at, b"\n".join(data)
                    data = []
            elif line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
    if rest.strip().startswith(b"data:"):
        data.append(rest.strip()[5:].strip())
    if data:  # a server that closes without the last empty line
        yield last, b"\n".join(data)
