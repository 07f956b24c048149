"""Stand-ins: the same original has the same one in every file, and each is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Replaced:
    """One original and what stands for it. `original` is empty for secrets and texts: nobody needs to see them."""

    kind: str
    original: str
    alias: str
    times: int
    files: tuple[str, ...]


class Aliases:
    """Gives stand-ins in the order in which originals turn up."""

    def __init__(self) -> None:
        self._alias: dict[tuple[str, str], str] = {}
        self._seen: dict[tuple[str, str, str], dict[str, int]] = {}

    def of(self, kind: str, original: str, file: str, make: Callable[[int], str]) -> str:
        """The stand-in of an original; `make` writes the n-th of its kind, counted from 1."""
        key = (kind, original)
        if key not in self._alias:
            self._alias[key] = make(1 + sum(k == kind for k, _ in self._alias))
        self.count(kind, original, self._alias[key], file)
        return self._alias[key]

    def count(self, kind: str, original: str, alias: str, file: str, times: int = 1) -> None:
        """Notes a replacement that has no stand-in of its own. File names themselves are no file."""
        places = self._seen.setdefault((kind, original, alias), {})
        places[file or "file names"] = places.get(file or "file names", 0) + times

    def replaced(self) -> tuple[Replaced, ...]:
        """Everything so far, by kind."""
        rows = (Replaced(*key, sum(places.values()), tuple(sorted(places))) for key, places in self._seen.items())
        return tuple(sorted(rows, key=lambda r: r.kind))
