"""Which lines of a block of bytes hold one of several hundred texts: the fast part of reading a large log.

Processor seconds for 1 GiB of a busy vLLM server's log (11.8 million lines, 381 thousand of them with one of 395 texts;
one core of an AMD EPYC, the file in the page cache), as tests/bench/make_log.py writes it:

    hyperscan 0.9.1, literals           0.5    a third of it for calling back into Python
    ripgrep 13, `rg -c -F -f`           1.8
    ahocorasick-rs 1.0.3, DFA           2.0    the automaton that ripgrep takes for so many texts
    google-re2 1.1, one alternation     2.5
    grep 3.8, `grep -c -F -f`           7
    bytes.find, one text after another  87     what is left where hyperscan has no wheel
    re, one alternation                 760

Line ends are found with numpy: 0.25 s for all of it, in blocks that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

hyperscan: ModuleType | None
try:
    import hyperscan
except ImportError:  # no wheel for this platform
    hyperscan = None

Places = npt.NDArray[np.int64]
NEWLINE = 10
ID_BITS = 16  # of a match: where it ends, and which text it is


@dataclass(frozen=True)
class Found:
    """The lines of one block that hold a text, in order: rows of equal length."""

    lines: Places  # index of the line within the block
    starts: Places  # where it begins
    ends: Places  # where its newline is
    texts: Places  # the first of the texts it holds, in the order in which they were given
    newlines: Places  # where all lines of the block end


class Finder:
    """Looks for the same texts in many blocks."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._matches: Matches = _one_by_one(texts) if hyperscan is None else _by_hyperscan(hyperscan, texts)

    def find(self, block: bytes) -> Found:
        """The lines of a block that ends with a newline."""
        newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == NEWLINE)
        matches = np.array(self._matches(block), np.int64)
        matches.sort()
        lines = np.searchsorted(newlines, (matches >> ID_BITS) - 1)
        first = np.flatnonzero(np.diff(lines, prepend=-1))
        lines = lines[first]
        texts = matches & ((1 << ID_BITS) - 1)
        texts = np.minimum.reduceat(texts, first) if len(first) else texts
        starts = np.where(lines > 0, newlines[lines - 1] + 1, 0)
        return Found(lines, starts, newlines[lines], texts, newlines)


Matches = Callable[[bytes], list[int]]


def _by_hyperscan(hyperscan: Any, texts: Sequence[bytes]) -> Matches:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    ids = list(range(len(texts)))
    database.compile(expressions=list(texts), ids=ids, elements=len(ids), flags=[0] * len(ids), literal=True)

    def matches(block: bytes) -> list[int]:
        found: list[int] = []
        add = found.append

        def seen(which: int, _start: int, end: int, _flags: int, _context: object) -> None:
            add(end << ID_BITS | which)

        database.scan(block, match_event_handler=seen)
        return found

    return matches


def _one_by_one(texts: Sequence[bytes]) -> Matches:
    def matches(block: bytes) -> list[int]:
        found: list[int] = []
        for which, text in enumerate(texts):
            at = block.find(text)
            while at >= 0:
                end = at + len(text)
                found.append(end << ID_BITS | which)
                at = block.find(text, end)
        return found

    return matches
