"""One setting in the words of one release: flags, keys of JSON options, variables; or why it cannot be said there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dflash_doctor.port import tables
from dflash_doctor.port.nouns import ENGINES
from dflash_doctor.settings import SETTINGS, SettingRow, Spelling
from dflash_doctor.settings.rows import UNSET
from dflash_doctor.settings.values import as_bool
from dflash_doctor.settings.versions import Version, first_of, last_of, number

# vLLM's flags that have no --no- form, up to this release
SWITCHES: Mapping[str, Version] = {
    "--disable-log-stats": (99,),
    "--aggregate-engine-logging": (99,),
    "--disable-log-requests": (0, 9, 2),
    "--enable-auto-tool-choice": (0, 9, 2),
    "--disable-uvicorn-access-log": (0, 9, 2),
    "--disable-frontend-multiprocessing": (0, 9, 2),
    "--trust-remote-code": (0, 8, 5),
    "--enforce-eager": (0, 8, 5),
    "--disable-sliding-window": (0, 8, 5),
    "--skip-tokenizer-init": (0, 8, 5),
    "--disable-cascade-attn": (0, 8, 5),
    "--enable-sleep-mode": (0, 8, 5),
}


@dataclass(frozen=True)
class Spelled:
    """What to write. Nothing at all, and no `missing`: it is so without being said."""

    flags: tuple[tuple[str, ...], ...] = ()
    keys: Mapping[str, Any] = field(default_factory=dict)  # speculative_config.method -> mtp
    env: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""  # why it cannot be said
    first: str = ""  # the first release that can say it

    def __add__(self, other: Spelled) -> Spelled:
        """Both."""
        return Spelled(
            (*self.flags, *other.flags),
            {**self.keys, **other.keys},
            {**self.env, **other.env},
            self.missing or other.missing,
            self.first or other.first,
        )

    @property
    def silent(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.flags or self.keys or self.env)

    def text(self) -> str:
        """For the table: `--tensor-parallel-size 2`, `--speculative-config '{"method": "mtp"}'`."""
        words = [" ".join(f) for f in self.flags]
        words += [f"{option(name)} '{shown(config)}'" for name, config in configs(self.keys).items()]
        return " ".join([*words, *(f"{k}={v}" for k, v in self.env.items())])


def option(name: str) -> str:
    """`speculative_config` -> `--speculative-config`."""
    return "--" + name.replace("_", "-")


def shown(config: Mapping[str, Any]) -> str:
    """A JSON option on one line."""
    return json.dumps(config, default=str)


def configs(keys: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Dotted keys as nested options."""
    found: dict[str, dict[str, Any]] = {}
    for dotted, value in keys.items():
        name, *path = dotted.split(".")
        below = found.setdefault(name, {})
        for part in path[:-1]:
            below = below.setdefault(part, {})
        below[path[-1]] = list(value) if isinstance(value, tuple) else value
    return found


def spell(key: str, value: Any, engine: str, version: str) -> Spelled:
    """How this release says it, by the first of its spellings that can."""
    row = SETTINGS[key]
    spellings = row.spellings(engine)
    if not spellings:
        return Spelled(missing=tables.hint(key, engine) or f"{ENGINES[engine]} has no such setting")
    acting = [s for s in spellings if s.acts(version) is not False]
    if not acting:
        return _not_here(key, spellings, engine, version)
    raw: Any = value
    if row.kind == "word" or tables.has_words(key):
        found = tables.word(key, value, engine, version)
        if found.text is None:
            acting = [s for s in acting if s.switch]  # a switch stands for its value, without a word
        if not acting:
            return _no_word(key, value, engine, found)
        raw = found.text
    for s in acting:
        written = _write(row, s, value, raw, version)
        if written is not None:
            return written
    return Spelled(missing=tables.hint(key, engine) or f"{ENGINES[engine]} has no way to say {_plain(value)}")


def _not_here(key: str, spellings: tuple[Spelling, ...], engine: str, version: str) -> Spelled:
    later = [s for s in spellings if _since(s) > (number(version) or ())]
    if later:
        first = min(later, key=_since)
        return Spelled(missing=f"{first.written} came later", first=first_of(first.versions))
    last = max(spellings, key=lambda s: number(last_of(s.versions)) or ())
    why = f"{last.written} left after {last_of(last.versions)}"
    return Spelled(missing=tables.hint(key, engine) or (f"{why}: {last.note}" if last.note else why))


def _since(s: Spelling) -> Version:
    return number(first_of(s.versions)) or ()


def _no_word(key: str, value: Any, engine: str, found: tables.Word) -> Spelled:
    if found.first:
        return Spelled(missing=f"{_plain(value)} came later", first=found.first)
    if found.left:
        return Spelled(missing=f"{_plain(value)} left after {found.left}")
    return Spelled(missing=tables.hint(key, engine) or f"{ENGINES[engine]} has no {_plain(value)}")


def _write(row: SettingRow, s: Spelling, value: Any, raw: Any, version: str) -> Spelled | None:
    """One spelling, or None when it cannot say this value."""
    if s.switch:
        if s.on_is is not UNSET and value == s.on_is:
            return _switched(s, version, on=True)
        return _switched(s, version, on=False) if s.off_is is not UNSET and value == s.off_is else None
    if s.words:
        raw = next((w for w, means in s.words.items() if means == value), raw)
    elif row.kind == "bool" or isinstance(raw, bool):
        on = as_bool(value)
        if on is not None:
            return _switched(s, version, on=on)
    if s.env:
        return Spelled(env={s.env: _plain(raw)})
    if s.json:
        return Spelled(keys={s.json: raw})
    words = [_plain(x) for x in raw] if isinstance(raw, (tuple, list)) else [_plain(raw)]
    return Spelled(flags=((s.flag or "", *words),))


def _switched(s: Spelling, version: str, *, on: bool) -> Spelled | None:
    if s.env:
        return Spelled(env={s.env: "1" if on else "0"})
    if s.json:
        return Spelled(keys={s.json: on})
    flag = s.flag or ""
    if on:
        return Spelled(flags=((flag,),))
    if s.engine == "vllm" and (number(version) or ()) > SWITCHES.get(flag, ()):
        return Spelled(flags=((f"--no-{flag[2:]}",),))
    return Spelled()  # off unless given, as all of SGLang's are


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 1e15 else str(value)
    return str(value)
