"""The texts by which a line of a large log is known to be worth reading, in the order of what it is taken for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache

from dflash_doctor.parsers.logs.boots import BANNERS
from dflash_doctor.parsers.logs.finder import Finder
from dflash_doctor.parsers.logs.literals import Literals
from dflash_doctor.parsers.logs.merged import SERIES
from dflash_doctor.parsers.logs.signals import FILES, book

DISTINCT = 10  # letters of a text that stands in no other line
# what begins several lines that belong together: a traceback, a table, a line that its transport cut
TOGETHER = ("Traceback (most recent call last)", "**CUDAGraph", "stdout P ", "stderr P ")
LOUD = (
    "WARN", "ERROR", "CRIT", "FATAL", '"warn', '"error', '"crit', '"fatal', "[W0", "[W1", "[E0", "[E1", "[F0", "[F1",
    "arning: ", "rror: ", "xception", "Interrupt", "SystemExit", "  File ", '" 5',
)  # fmt: skip
# engines without level names: the words by which events.py takes a line for a warning
WORDS = (
    "arning", "fail", "Fail", "fall", "Fall", "isabl", "not ", "annot", "eprecat", "kip", "issing", "gnor", "navail",
    "ismatch", "egrad", "ptimal", "low", "longer", "xceed", "too ", "nable", "nsupp", "an't", "atal", "died", "dumped",
    "hit an", "of memory",
)  # fmt: skip


class Texts:
    """All texts, each kind up to the number in its name: a line that holds several is of the first kind."""

    def __init__(self, engines: Iterable[str], words: bool) -> None:
        forms = [form for engine in engines for form in book(engine).forms]
        ids = {text: form.id for form in forms for text in _telling(form.literals)}
        distinct = [text for text in ids if len(text) >= DISTINCT]
        self.all: list[bytes] = []
        self.begins = self._add(text for text in distinct if ids[text] in BANNERS)
        self.figures = self._add(text for text in distinct if ids[text] in SERIES)
        self.together = self._add(TOGETHER)
        self.known = self._add(ids)
        self._add((*LOUD, *WORDS) if words else LOUD)
        self.finder = Finder(self.all)

    def _add(self, texts: Iterable[str]) -> int:
        # JSON logs escape quotes, and whatever is not ASCII
        spelled = {form.encode() for text in texts for form in (text, json.dumps(text)[1:-1])}
        # a text that holds a shorter one is found by it: every find costs a call
        for text in sorted(spelled, key=lambda t: (len(t), t)):
            if not any(shorter in text for shorter in self.all):
                self.all.append(text)
        return len(self.all)


def _telling(of: Literals) -> tuple[str, ...]:
    """What a line must hold, in the longer words: "Avg prompt throughput: " rather than "Engine " at its beginning."""
    return max(of.needs, of.starts, key=lambda texts: min(map(len, texts), default=0))


@cache
def texts_of(engine: str) -> Texts:
    """The texts of one engine; of all of them for "", when nobody knows yet whose log it is."""
    return Texts([engine] if engine else FILES, words=engine != "vllm")
