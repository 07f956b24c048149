"""Long texts of our own making, drawn from a small grammar in probes/load/: the same on every machine, every day."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, TypeVar

import yaml

from dflash_doctor import paths

PLACE = re.compile(r"\{(\w+)\}")

T = TypeVar("T")


def made(how: Mapping[str, int]) -> str:
    """What a prompt asks for: {log: seed, sentences: n}, {words: seed, many: n} or {code: seed, functions: n}."""
    if "code" in how:
        return code(how["code"], how["functions"])
    return words(how["words"], how["many"]) if "words" in how else log(how["log"], how["sentences"])


def log(seed: int, sentences: int) -> str:
    """So many sentences of a harbour log, six to a paragraph."""
    rng, kinds = Random(seed), _grammar()["words"]
    drawn = [
        PLACE.sub(lambda place: str(_one_of(kinds[place[1]], rng)), _one_of(_grammar()["sentences"], rng))
        for _ in range(sentences)
    ]
    upper = [s[0].upper() + s[1:] for s in drawn]
    return "\n\n".join(" ".join(upper[i : i + 6]) for i in range(0, len(upper), 6))


def words(seed: int, many: int) -> str:
    """So many single words that have nothing to do with each other, none twice."""
    rng = Random(seed)
    parts = {w.lower() for kind in _grammar()["words"].values() for text in map(str, kind) for w in text.split()}
    left = sorted(w for w in parts if w.isalpha() and len(w) > 1)
    return " ".join(left.pop(_below(len(left), rng)) for _ in range(many))


def code(seed: int, functions: int) -> str:
    """So many functions and classes of a Python file that does nothing in particular."""
    rng, grammar = Random(seed), _grammar()["code"]
    parts = []
    for n in range(1, functions + 1):
        drawn = {kind: _one_of(choices, rng) for kind, choices in grammar["words"].items()}
        parts.append(_one_of(grammar["functions"], rng).format(n=n, Noun=drawn["noun"].title(), **drawn))
    return "\n\n".join(parts)


def _one_of(choices: Sequence[T], rng: Random) -> T:
    return choices[_below(len(choices), rng)]


def _below(many: int, rng: Random) -> int:
    return int(rng.random() * many)  # of Random only random() gives the same in every Python


@cache
def _grammar() -> Mapping[str, Any]:
    grammar: Mapping[str, Any] = yaml.safe_load(paths.probes("load", "grammar.yaml").read_text(encoding="utf-8"))
    return grammar
