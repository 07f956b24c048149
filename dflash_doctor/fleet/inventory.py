"""Which hosts are meant, and how each is looked at: hosts.yaml, plain lists, names and patterns of ~/.ssh/config.

defaults: {preset: quick}
groups:
  prod:
    baseline: qwen3.6-27b.gpu.tuned
    quiet_hours: "08:00-18:00"      # looked at, but brought no load, within these hours of local time
    hosts:
      - gpu1
      - gpu[2-9]*                   # every name of ~/.ssh/config that fits
      - {target: me@gpu10:2222, engine_port: 8001, ssh: {ProxyJump: bastion}}

What stands at a host counts before what stands at its group, and that before the defaults.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import time
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from dflash_doctor.model import Refused

PATTERN = re.compile(r"[*?]|\[[^\]:]*\]")  # [::1] is an address
HOURS = re.compile(r"(\d\d?):(\d\d)\s*-\s*(\d\d?):(\d\d)")
MOST_BYTES = 10_000_000


@dataclass(frozen=True)
class Wanted:
    """One host to look at. What is None is left to the command."""

    target: str
    groups: tuple[str, ...] = ()
    baseline: str | None = None
    preset: str | None = None
    load: bool | None = None
    max_running: int | None = None
    quiet_hours: str | None = None
    engine_port: int | None = None
    log: str | None = None
    api: str | None = None
    api_key_env: str | None = None
    ssh: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the host is called in reports and in the history: two engines of one host are two."""
        return self.target if self.engine_port is None else f"{self.target}#{self.engine_port}"

    def quiet(self, now: time) -> bool:
        """Whether this is a time at which it gets no load."""
        match = HOURS.fullmatch(self.quiet_hours or "")
        if match is None:
            return False
        h1, m1, h2, m2 = map(int, match.groups())
        begin, end, at = h1 * 60 + m1, h2 * 60 + m2, now.hour * 60 + now.minute
        return begin <= at < end if begin <= end else at >= begin or at < end


class _How(BaseModel):
    model_config = ConfigDict(extra="forbid")

    baseline: str | None = None
    preset: str | None = None
    load: bool | None = None
    max_running: int | None = Field(None, ge=0)
    quiet_hours: str | None = None
    engine_port: int | None = Field(None, ge=1, le=65535)
    log: str | None = None
    api: str | None = None
    api_key_env: str | None = None
    ssh: dict[str, str | int] = Field(default_factory=dict)

    @field_validator("quiet_hours")
    @classmethod
    def _hours(cls, value: str | None) -> str | None:
        match = HOURS.fullmatch(value or "")
        if value is not None and (match is None or any(int(h) > 24 or int(m) > 59 for h, m in _clock(match))):
            raise ValueError("write them as 22:00-06:30")
        return value


def _clock(match: re.Match[str]) -> tuple[tuple[str, str], tuple[str, str]]:
    h1, m1, h2, m2 = match.groups()
    return (h1, m1), (h2, m2)


class _One(_How):
    target: str


class _Group(_How):
    hosts: list[str | _One] = Field(default_factory=list)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    defaults: _How = Field(default_factory=_How)
    groups: dict[str, _Group] = Field(default_factory=dict)
    hosts: list[str | _One] = Field(default_factory=list)


def read(path: Path) -> tuple[Wanted, ...]:
    """The hosts of a hosts.yaml, or of a plain list with one target a line. Refused when it is neither."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise Refused(f"{path} is too large to be a list of hosts")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as e:
        raise Refused(f"{path} cannot be read: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise Refused(f"{path} is no list of hosts: it is no UTF-8 text") from e
    if path.suffix.lower() in (".yaml", ".yml"):
        return _inventory(path, text)
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(Wanted(_one_word(path, line)) for line in lines if line)


def _one_word(path: Path, line: str) -> str:
    if len(line.split()) > 1:
        raise Refused(f"{path} is no list of hosts: {line[:80]!r} is more than one word")
    return line


def _inventory(path: Path, text: str) -> tuple[Wanted, ...]:
    try:
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        said = _File.model_validate(document if document is not None else {})
    except (yaml.YAMLError, RecursionError) as e:
        raise Refused(f"{path} is not YAML: {' '.join(str(e).split())[:200]}") from e
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(x) for x in first["loc"] if x not in ("_One", "str"))
        raise Refused(f"{path} is not a hosts.yaml: {where or 'the top'}: {first['msg']}") from e
    found = [_wanted(h, (), said.defaults) for h in said.hosts]
    for name, group in said.groups.items():
        found += [_wanted(h, (name,), group, said.defaults) for h in group.hosts]
    return tuple(found)


def _wanted(host: str | _One, groups: tuple[str, ...], *behind: _How) -> Wanted:
    one = _One(target=host) if isinstance(host, str) else host
    merged: dict[str, Any] = {}
    ssh: dict[str, str] = {}
    for how in (*reversed(behind), one):
        given = how.model_dump(exclude_none=True, include=set(_How.model_fields))
        ssh |= {k: str(v) for k, v in given.pop("ssh", {}).items()}
        merged |= given
    return Wanted(target=one.target, groups=groups, ssh=ssh, **merged)


def wanted(
    listed: Iterable[Wanted], aliases: Sequence[str], groups: Sequence[str] = (), only: Sequence[str] = ()
) -> tuple[Wanted, ...]:
    """Patterns spelled out with the names that the ssh configuration knows, each host once, of the asked groups.

    `only` narrows to names or patterns. Refused when a pattern, a group or a name fits nothing.
    """
    found: dict[str, Wanted] = {}
    for one in (x for w in listed for x in _spelled(w, aliases)):
        before = found.get(one.name)
        found[one.name] = one if before is None else replace(before, groups=(*before.groups, *one.groups))
    known = {g for w in found.values() for g in w.groups}
    if missing := [g for g in groups if g not in known]:
        raise Refused(f"there is no group {missing[0]!r}; there are {', '.join(sorted(known)) or 'none'}")
    kept = [w for w in found.values() if not groups or set(groups) & set(w.groups)]
    for name in only:
        if not any(fnmatch.fnmatchcase(w.name, name) for w in kept):
            raise Refused(f"no host of the list fits {name!r}")
    return tuple(w for w in kept if not only or any(fnmatch.fnmatchcase(w.name, n) for n in only))


def _spelled(one: Wanted, aliases: Sequence[str]) -> list[Wanted]:
    if not PATTERN.search(one.target) or "/" in one.target:
        return [one]
    names = [a for a in aliases if fnmatch.fnmatchcase(a, one.target)]
    if not names:
        raise Refused(f"no name in the ssh configuration fits {one.target!r}")
    return [replace(one, target=name) for name in names]


def plan(hosts: Sequence[Wanted], how: Mapping[str, Any]) -> str:
    """A digest of who is looked at and how: an interrupted check is taken up by the same plan only."""
    rows = sorted((asdict(h) for h in hosts), key=lambda r: str(r["target"]))
    return hashlib.sha256(json.dumps([rows, dict(how)], sort_keys=True, default=str).encode()).hexdigest()
