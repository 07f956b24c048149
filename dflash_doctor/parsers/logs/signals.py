"""The lines we know, as data: data/*_log_signals.yaml, each form with the versions that print it and a sample.

A body (the text after the prefix) is looked up by its first letters and by literals its pattern needs, so that few
regexes run per line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from dflash_doctor import paths
from dflash_doctor.parsers.logs import literals
from dflash_doctor.parsers.logs.literals import Literals

# each engine's own lines, then those any Python server prints
FILES: Mapping[str, tuple[str, ...]] = {
    "vllm": ("vllm_log_signals.yaml", "common_log_signals.yaml"),
    "sglang": ("sglang_log_signals.yaml", "common_log_signals.yaml"),
    "llama.cpp": ("llamacpp_log_signals.yaml", "common_log_signals.yaml"),
    "": ("common_log_signals.yaml",),
}
LEVELS = {"PRINT": "INFO", "ERROR(exception)": "ERROR"}


@dataclass(frozen=True)
class Form:
    """One wording of one signal."""

    id: str
    level: str
    topics: tuple[str, ...]
    pattern: str
    literals: Literals
    order: int
    example: str = ""


@dataclass(frozen=True)
class Match:
    """A body that a form reads."""

    form: Form
    fields: Mapping[str, str]


class Book:
    """All forms of one engine, looked up by body."""

    def __init__(self, forms: Iterable[Form]) -> None:
        self.forms = tuple(forms)
        self._by_head: dict[str, list[Form]] = {}
        self._inside: list[tuple[str, Form]] = []  # a text to look for anywhere, and whose it is
        for form in self.forms:
            if form.literals.starts:
                for head in {s[: literals.MIN_USEFUL] for s in form.literals.starts}:
                    self._by_head.setdefault(head, []).append(form)
            else:
                self._inside += [(need, form) for need in form.literals.needs or ("",)]
        self._compiled: dict[str, re.Pattern[str]] = {}

    def match(self, body: str) -> Match | None:
        """The first form, in the order of the file, that reads this body."""
        found: tuple[Form, re.Match[str]] | None = None
        for form in self._by_head.get(body[: literals.MIN_USEFUL], ()):
            if body.startswith(form.literals.starts) and (m := self._regex(form).search(body)):
                found = (form, m)
                break
        for need, form in self._inside:
            earlier = found is None or form.order < found[0].order
            if earlier and need in body and (m := self._regex(form).search(body)):
                found = (form, m)
                break
        if found is None:
            return None
        return Match(found[0], {k: v for k, v in found[1].groupdict().items() if v is not None})

    def literals(self) -> tuple[str, ...]:
        """Texts of which a line must hold at least one to be a signal; what a prefilter over bytes looks for."""
        texts = {t for f in self.forms for t in (f.literals.starts or f.literals.needs)}
        return tuple(sorted(texts))

    def _regex(self, form: Form) -> re.Pattern[str]:
        regex = self._compiled.get(form.pattern)
        if regex is None:
            regex = self._compiled[form.pattern] = re.compile(form.pattern)
        return regex


@cache
def book(engine: str) -> Book:
    """The forms of one engine ("" for a text of no known engine)."""
    return Book(form for i, name in enumerate(FILES[engine]) for form in _forms(name, i * 100_000))


@cache
def _forms(name: str, first: int) -> tuple[Form, ...]:
    entries = _loaded(name)["signals"]
    rows = [(entry, form) for entry in entries for form in entry["forms"]]
    return tuple(
        Form(
            id=entry["id"],
            level=LEVELS.get(form["level"], form["level"]),
            topics=tuple(entry.get("topics") or ()),
            pattern=form["regex"],
            literals=literals.of(form["regex"]),
            order=first + n,
            example=form.get("example", ""),
        )
        for n, (entry, form) in enumerate(rows)
    )


def _loaded(name: str) -> Any:
    # libyaml reads these files ten times faster than pure Python, where PyYAML has it
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with paths.data(name).open(encoding="utf-8") as f:
        return yaml.load(f, Loader=loader)
