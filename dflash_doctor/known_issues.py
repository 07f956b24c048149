"""What is known upstream (data/known_issues.yaml), and whether a row speaks of a host. A noun, like metrics.py.

    [i.id for i in known_issues() if speaks_of(i, snapshot)]      rows whose every condition this host shows

A condition that the host says nothing about does not hold: an issue is never guessed.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from functools import cache
from statistics import median
from typing import Any

import yaml

from dflash_doctor import paths
from dflash_doctor.formats.known_issues import Asked, Issue, KnownIssuesFile, Value, When
from dflash_doctor.gpu_words import spec_of
from dflash_doctor.model import Snapshot
from dflash_doctor.settings.versions import Version, number

_ORDER: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_BOUND = re.compile(r"(>=|<=|>|<)\s*(-?\d+(?:\.\d+)?)")


@cache
def known_issues() -> tuple[Issue, ...]:
    """Every row, in the file's order."""
    text = paths.data("known_issues.yaml").read_text(encoding="utf-8")
    loaded = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return tuple(KnownIssuesFile.model_validate(loaded).issues)


def speaks_of(issue: Issue, s: Snapshot) -> bool:
    """Whether this host has the issue's release and shows all of its conditions."""
    if issue.engine is not None and issue.engine != s.engine:
        return False
    return within(issue.versions, s.version) and _shows(issue.when, s)


def within(releases: str | None, version: str | None) -> bool:
    """Whether `version` is in `first..last`, both ends in it; `2.7` holds every 2.7.x. No range holds all."""
    if releases is None:
        return True
    asked = number(version)
    if asked is None:
        return False
    low, _, high = releases.partition("..")
    first, last = number(low), number(high)
    return (first is None or first <= asked) and (last is None or _cut(asked, last) <= last)


def _cut(version: Version, like: Version) -> Version:
    return version[: len(like)]


def _shows(when: When, s: Snapshot) -> bool:
    conditions: tuple[bool, ...] = (
        all(fits(asked, s.value(key)) for key, asked in when.settings.items()),
        all(_installed(s, name, releases) for name, releases in when.packages.items()),
        when.driver is None or within(when.driver, s.host.get("driver_version")),
        not when.cards or any(_is_card(w, name) for w in when.cards for name in s.gpu_names()),
        _named(when.model, (s.value("model.path"), s.value("model.architecture"))),
        _named(when.draft, (s.value("spec.draft_model"),)),
        all(fits(asked, _measured(s, metric)) for metric, asked in when.numbers.items()),
        all(
            any(fits(asked, x) for x in s.gpu_numbers(counter).values()) for counter, asked in when.readings.items()
        ),
        not when.signals or bool(s.find(*when.signals)),
    )  # fmt: skip
    return all(conditions)


def fits(asked: Asked, value: Any) -> bool:
    """Whether a value is as asked.

    `!x` is anything but x, also where nobody said anything; `>=4`, `<1.3` are of numbers; `~x` has x in it, `~` alone
    is said at all; of a list one is enough; anything else is the same word or number. Of several values (a list of
    sizes) one is enough.
    """
    if isinstance(asked, list):
        return any(fits(a, value) for a in asked)
    if isinstance(asked, str) and asked.startswith("!"):
        return not fits(asked[1:], value)
    if isinstance(value, (list, tuple)):
        return any(fits(asked, v) for v in value)
    return value is not None and _is(asked, value)


def _is(asked: Value, value: Any) -> bool:
    if isinstance(asked, str) and (bound := _BOUND.fullmatch(asked)):
        numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
        return numeric and _ORDER[bound[1]](value, float(bound[2]))
    if isinstance(asked, str):
        said = str(value).casefold()
        return asked[1:].casefold() in said if asked.startswith("~") else asked.casefold() == said
    # 1 is no True here
    return isinstance(value, bool) == isinstance(asked, bool) and bool(value == asked)


def _installed(s: Snapshot, name: str, releases: str) -> bool:
    return name in s.packages and (releases == "any" or within(releases, s.packages[name]))


def _is_card(word: str, name: str) -> bool:
    spec = spec_of(name)
    return word.casefold() in name.casefold() or (spec is not None and word in (spec.arch, spec.compute_capability))


def _named(words: list[str], names: Iterable[Any]) -> bool:
    said = [str(n).casefold() for n in names if n]
    return not words or any(w.casefold() in n for w in words for n in said)


def _measured(s: Snapshot, metric: str) -> float | None:
    values = [x.value for x in s.samples if x.metric == metric]
    return median(values) if values else None
