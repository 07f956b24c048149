"""data/port.yaml and data/concepts.yaml: words, choices, hints, what cards can run, what contradicts itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from dflash_doctor import paths
from dflash_doctor.settings import SETTINGS
from dflash_doctor.settings.versions import LOOKED_AT, at, covers, number


@cache
def _read(name: str) -> Mapping[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loaded: Mapping[str, Any] = yaml.load(paths.data(name).read_text(encoding="utf-8"), Loader=loader)
    return loaded


def section(name: str) -> Any:
    """One part of data/port.yaml."""
    return _read("port.yaml")[name]


def hint(key: str, engine: str) -> str:
    """Why an engine has no such setting, and what to do instead; empty when nothing is known."""
    found: str = section("hints").get(key, {}).get(engine, "")
    return found


def warning(key: str, value: Any, engine: str) -> str:
    """Why a value that can be written there does not mean the same; empty when it does."""
    found: str = section("warnings").get(key, {}).get(_name(value), {}).get(engine, "")
    return found


def caveat(concept: str) -> str:
    """The first thing to know of a concept."""
    caveats = _read("concepts.yaml")["concepts"].get(concept, {}).get("caveats") or ("",)
    return str(caveats[0]).rstrip(".")


def newest(engine: str) -> str:
    """The last release that was looked at."""
    return LOOKED_AT[engine][-1]


# -- words of values --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Word:
    """How an engine writes a value: its word, or why there is none."""

    text: str | None = None
    first: str = ""  # the first release that has it, when this one is too old
    left: str = ""  # the last release that had it, when it is gone


def has_words(key: str) -> bool:
    """Whether its values have names of their own in each engine."""
    return key in section("words") or key in section("choices")


def word(key: str, value: Any, engine: str, version: str) -> Word:
    """The word of a neutral value in one release."""
    rows = _words(key)
    text = _name(value)
    if text in rows and engine in rows[text]:
        known, found = at(rows[text][engine], version, engine)
        if found is None:
            return _elsewhere(rows[text][engine], version, engine) if not known else Word()
        text = str(found)
    return _accepted(key, text, engine, version)


def _words(key: str) -> Mapping[str, Any]:
    rows = section("words").get(key, {})
    found: Mapping[str, Any] = section("words")[rows] if isinstance(rows, str) else rows
    return found


def _name(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _elsewhere(ranges: Mapping[str, Any], version: str, engine: str) -> Word:
    """A word that other releases have."""
    return _outside(next(iter(ranges)), list(ranges)[-1], version, engine)


def _outside(first: str, last: str, version: str, engine: str) -> Word:
    low, high = first.split(",")[0].partition("..")[0].strip(), last.split(",")[-1].rpartition("..")[2].strip()
    here = number(version) or ()
    return Word(first=low) if (number(low) or ()) > here else Word(left=high)


def _accepted(key: str, text: str, engine: str, version: str) -> Word:
    """The word as the list of the release has it, in its case; any word goes where there is no list."""
    table = section("choices").get(key, {}).get(engine)
    if isinstance(table, str):
        table = section("choices")[table][engine]
    if not table:
        return Word(text)
    for ranges, words in table.items():
        listed = {w.lower(): w for w in words}
        if text.lower() not in listed:
            continue
        if covers(ranges, version, engine) is not False:
            return Word(listed[text.lower()])
        return _outside(ranges, ranges, version, engine)
    return Word()


# -- cards ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CardRule:
    """What a value needs of a card."""

    why: str
    instead: Any = None  # the value that takes its place; None: leave it to the engine
    keep: bool = False  # it runs all the same, only not as fast


def card_rule(key: str, value: Any, engine: str, capability: str, nvlink: float | None) -> CardRule | None:
    """The rule that a card breaks by running this value; None when it can."""
    here = number(capability)
    if here is None:
        return None  # not NVIDIA's numbering
    for rule in section("cards"):
        if rule["key"] != key or value not in rule["values"] or rule.get("engine", engine) != engine:
            continue
        linked = "nvlink" not in rule or nvlink is None or nvlink >= rule["nvlink"] * 1e9
        if _within(rule["capability"], here) and linked:
            continue
        instead = next((v for r, v in rule.get("instead", {}).items() if _within(r, here)), None)
        return CardRule(rule["why"], instead, rule.get("keep", False))
    return None


def _within(ranges: str, here: tuple[int, ...]) -> bool:
    for part in ranges.split(","):
        first, _, last = part.strip().partition("..")
        low, high = number(first), number(last or first)
        if low and high and low <= here <= high:
            return True
    return False


def is_row(key: str) -> bool:
    """Whether settings.yaml knows it."""
    return key in SETTINGS
