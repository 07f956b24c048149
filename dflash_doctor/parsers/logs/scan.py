"""Which lines of a text are worth reading: the one place that decides, so that a faster way can take its place.

Most lines of a busy server's log are requests. Of a small log every line is read; of a large one those whose body
begins like a known line, that hold a literal some pattern needs, or a word of alarm; of requests in a row the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from dflash_doctor.parsers.logs.literals import MIN_USEFUL
from dflash_doctor.parsers.logs.signals import FILES, book

SMALL = 8_000_000  # characters; below it reading every line takes about a second
REQUEST = ' - "POST '
# what events.py looks at without a pattern: alarms, tracebacks, the words of engines without level names
ALARMS = (
    "WARN", "ERROR", "CRIT", "FATAL", "Traceback", "rror: ", "xception", "Interrupt", "  File ", "arning", "fail",
    "Fail", "fall", "isabl", "not ", "annot", "eprecat", "kip", "issing", "gnor", "navail", "ismatch", "egrad",
    "ptimal", "low", "longer", "xceed", "too ", "nable", "nsupp", "an't", "atal", "died", "dumped", "hit an",
    "of memory",
)  # fmt: skip
BODIES = 3  # brackets before a body: a pod, a file; more are within it


def candidates(text: str) -> Iterator[tuple[int, str]]:
    """(line number, line) of the lines worth reading."""
    numbered = enumerate(text.split("\n"), 1)
    return iter(numbered) if len(text) <= SMALL else _worth(numbered)


def _worth(numbered: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    starts, needs = _known()
    asked = False
    for n, raw in numbered:
        if REQUEST in raw:
            if not asked or '" 5' in raw:
                yield n, raw
            asked = True
        elif raw and (_begins(raw, starts) or any(map(raw.__contains__, needs))):
            asked = False
            yield n, raw


def _begins(raw: str, starts: dict[str, tuple[str, ...]]) -> bool:
    """Whether the text behind a prefix, or the whole line, begins like a known one."""
    at = 0
    for _ in range(BODIES + 1):
        known = starts.get(raw[at : at + MIN_USEFUL])
        if known is not None and raw.startswith(known, at):
            return True
        after = raw.find("] ", at)
        if after < 0:
            # no engine's prefix: a raw print behind its process, JSON, or a layout of the operator's own
            return at == 0 and (raw[0] in "{0123456789" or _begins_raw(raw, starts))
        at = after + 2
    return False


def _begins_raw(raw: str, starts: dict[str, tuple[str, ...]]) -> bool:
    at = raw.find("pid=")
    body = raw[raw.find(") ", at) + 2 :] if at >= 0 else raw
    body = body.removeprefix("INFO:").lstrip()
    known = starts.get(body[:MIN_USEFUL])
    return known is not None and body.startswith(known)


@cache
def _known() -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Beginnings by their first letters, and texts to look for anywhere."""
    forms = [form for engine in FILES for form in book(engine).forms]
    beginnings = {t for form in forms for t in form.literals.starts}
    heads = {t[:MIN_USEFUL] for t in beginnings}
    starts = {head: tuple(t for t in beginnings if t.startswith(head)) for head in heads}
    needs = {t for form in forms if not form.literals.starts for t in form.literals.needs} | set(ALARMS)
    # raw prints stand behind any prefix: their beginnings are looked for anywhere
    needs |= {t for form in book("").forms for t in form.literals.starts}
    # a text that holds a shorter one is found by it
    short = tuple(t for t in needs if not any(o != t and o in t for o in needs))
    return starts, short
