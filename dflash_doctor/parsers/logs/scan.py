"""Which lines of a text are worth reading: the one place that decides, so that a faster way can take its place.

Most lines of a busy server's log are answered requests. Of a small log every line is read; of a large one only those
that hold a literal some pattern needs, or a word of alarm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from dflash_doctor.parsers.logs.literals import MIN_USEFUL
from dflash_doctor.parsers.logs.signals import FILES, book

SMALL = 8_000_000  # characters; below it reading every line takes under a second
# what events.py looks at without a pattern: requests, alarms, tracebacks
ALWAYS = (" - \"POST ", "WARN", "ERROR", "CRITICAL", "FATAL", "Traceback", "Error", "Exception", "warn", "fail", "fall",
          "disabl", "not ", "cannot", "  File ")  # fmt: skip


def candidates(text: str) -> Iterator[tuple[int, str]]:
    """(line number, line) of the lines worth reading."""
    numbered = enumerate(text.split("\n"), 1)
    if len(text) <= SMALL:
        return iter(numbered)
    wanted = _wanted()
    return ((n, raw) for n, raw in numbered if wanted.search(raw))


@lru_cache(maxsize=1)
def _wanted() -> re.Pattern[str]:
    """One pattern for all literals, long ones cut to their first letters: those tell apart well enough."""
    cut = 14
    literals = {t[:cut] for engine in FILES for t in book(engine).literals() if len(t) >= MIN_USEFUL} | set(ALWAYS)
    shortest = [t for t in literals if not any(o != t and t.startswith(o) for o in literals)]
    return re.compile("|".join(re.escape(t) for t in sorted(shortest)))
