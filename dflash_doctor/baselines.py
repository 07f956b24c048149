"""Stored baselines: the user's own folder, and behind it the shipped profiles, read-only.

A name is never overwritten without a reason, a file is written whole or not at all, and what is not a baseline is said
to be none. `choose` finds the baseline of a host when nobody named one (CONTRACTS.md §1).
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pydantic
import yaml

from dflash_doctor import paths, settings
from dflash_doctor.formats.baseline import SCHEMA, Baseline, Passport, Replaced, to_snapshot
from dflash_doctor.model import Refused, Snapshot

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
FAMILY = "dflash-doctor/baseline/"


@dataclass(frozen=True)
class Entry:
    """One baseline in the list."""

    name: str
    path: Path
    shipped: bool
    baseline: Baseline


def home() -> Path:
    """Where baselines are kept unless told otherwise."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "dflash-doctor" / "baselines"


class Store:
    """A folder of baselines, with the shipped ones behind it."""

    def __init__(self, folder: Path | None = None, shipped: Path | None = None) -> None:
        self.folder = folder or home()
        self.shipped = shipped or paths.baselines()

    def entries(self) -> tuple[list[Entry], list[str]]:
        """All baselines, the user's first; and one sentence for each file that is none."""
        found: dict[str, Entry] = {}
        bad: list[str] = []
        for folder, shipped in ((self.folder, False), (self.shipped, True)):
            for path in sorted(folder.glob("*.yaml")) if folder.is_dir() else ():
                try:
                    entry = Entry(path.stem, path, shipped, read(path))
                except Refused as e:
                    bad.append(str(e))
                    continue
                found.setdefault(entry.name, entry)
        return list(found.values()), bad

    def names(self) -> list[str]:
        """What `load` may find, without reading it."""
        files = (p for folder in (self.folder, self.shipped) if folder.is_dir() for p in sorted(folder.glob("*.yaml")))
        return list(dict.fromkeys(p.stem for p in files))

    def load(self, name: str) -> Entry:
        """The baseline of that name; Refused with what is near it."""
        if NAME.fullmatch(name):
            for folder, shipped in ((self.folder, False), (self.shipped, True)):
                path = folder / f"{name}.yaml"
                if path.is_file():
                    return Entry(name, path, shipped, read(path))
        known = [e.name for e in self.entries()[0]]
        near = difflib.get_close_matches(name, known, 3, 0.5) or [n for n in known if name in n][:3]
        hint = f"; near it: {', '.join(near)}" if near else "; `dflash-doctor baseline list` shows those there are"
        raise Refused(f"there is no baseline named {name!r}{hint}")

    def save(self, baseline: Baseline, *, replace: bool = False, reason: str | None = None, by: str = "") -> Path:
        """Write it whole. A name in use needs `replace` and a reason, which goes into the passport."""
        path = self.check_name(baseline.name, replace=replace, reason=reason)
        if path.exists():
            baseline = _replacing(baseline, path, (reason or "").strip(), by)
        write(path, baseline)
        return path

    def check_name(self, name: str, *, replace: bool = False, reason: str | None = None) -> Path:
        """Where a baseline of this name would go; Refused when the name cannot be or is taken."""
        if not NAME.fullmatch(name):
            raise Refused(f"{name!r} cannot be a baseline's name: letters, digits, . _ + - only")
        path = self.folder / f"{name}.yaml"
        if path.exists() and not (replace and (reason or "").strip()):
            raise Refused(f"a baseline named {name!r} exists; overwrite it with --replace --reason '…'")
        return path

    def remove(self, name: str) -> Path:
        """Take one of the user's own away."""
        entry = self.load(name)
        if entry.shipped:
            raise Refused(f"{name} is shipped with dflash-doctor and stays")
        try:
            entry.path.unlink()
        except OSError as e:
            raise Refused(f"{entry.path} cannot be removed: {e.strerror}") from e
        return entry.path


def _replacing(new: Baseline, path: Path, reason: str, by: str) -> Baseline:
    """The new one with a row about the old in its passport."""
    before: list[Replaced] = []
    with contextlib.suppress(Refused):  # a broken file may be overwritten too
        before = read(path).passport.replaced
    row = Replaced(when=datetime.now(timezone.utc).isoformat(timespec="seconds"), by=by, why=reason)
    passport = new.passport.model_copy(update={"replaced": [*before, row]})
    return new.model_copy(update={"passport": passport})


def read(path: Path) -> Baseline:
    """A baseline from its file; Refused in one sentence when it is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as e:
        raise Refused(f"{path} cannot be read: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise Refused(f"{path} is not a baseline: it is no UTF-8 text") from e
    try:
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError) as e:
        raise Refused(f"{path} is not YAML: {_trouble(e)}") from e
    schema = document.get("schema") if isinstance(document, Mapping) else None
    if not isinstance(schema, str) or not schema.startswith(FAMILY):
        raise Refused(f"{path} is not a baseline: it has no line `schema: {SCHEMA}`")
    if schema != SCHEMA:
        raise Refused(f"{path} is a baseline of schema {schema}; this version reads {SCHEMA}")
    try:
        return Baseline.model_validate(document)
    except pydantic.ValidationError as e:
        first = e.errors()[0]
        where = ".".join(str(x) for x in first["loc"])
        raise Refused(f"{path} is not a whole baseline: {where}: {first['msg']}") from e


def _trouble(e: Exception) -> str:
    """What a YAML reader complains of, and where."""
    if isinstance(e, yaml.MarkedYAMLError) and e.problem_mark is not None:
        return f"{e.problem} (line {e.problem_mark.line + 1})"
    return " ".join(str(e).split())[:200] or type(e).__name__


def write(path: Path, baseline: Baseline) -> None:
    """Write a baseline whole or not at all."""
    text = yaml.safe_dump(_lean(baseline.model_dump(by_alias=True)), sort_keys=False, allow_unicode=True, width=120)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as f:
            temporary = Path(f.name)
            f.write(text)
            f.flush()
            os.fsync(f.fileno())
        temporary.replace(path)
    except OSError as e:
        raise Refused(f"{path} cannot be written: {e.strerror}") from e
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _lean(document: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty or false by default: people read these files. In a card's values null is an answer."""
    cards = document.get("cards")
    lean = {k: _leaner(v) for k, v in document.items() if v not in (None, [], {}, "")}
    return lean | {"cards": cards} if cards else lean


def _leaner(value: Any) -> Any:
    if isinstance(value, list):
        return [_leaner(v) for v in value]
    if not isinstance(value, dict):
        return value
    return {
        k: _leaner(v) for k, v in value.items() if v not in (None, [], {}, "") and not (k == "assumed" and v is False)
    }


# -- which one --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """The baseline that fits, why, and the ones that fit as well."""

    entry: Entry | None
    why: str
    tied: tuple[str, ...] = ()


def choose(now: Snapshot, names: Iterable[str], store: Store) -> Choice:
    """The newest stored baseline of this very host whose conditions match; else a shipped one of the same model, GPU
    and count; when several fit equally, none. `names` are what this host is called."""
    entries, _ = store.entries()
    called = {_machine(n) for n in names if n}
    mine = [e for e in entries if not e.shipped and _machine(e.baseline.passport.host or "") in called]
    own = [e for e in mine if fits(e.baseline, now)]
    if own:
        newest = max(own, key=lambda e: e.baseline.passport.captured_at or "")
        return Choice(newest, "the newest baseline captured from this host")
    shipped = [e for e in entries if e.shipped and fits(e.baseline, now, strictly=True)]
    if len(shipped) == 1:
        return Choice(shipped[0], "a shipped profile of the same model, GPU and count")
    if shipped:
        tied = tuple(e.name for e in shipped)
        return Choice(None, f"several shipped profiles fit equally: {', '.join(tied)}; name one with --baseline", tied)
    return Choice(None, "no stored baseline is of this host, and no shipped one of this model, GPU and count")


def _machine(name: str) -> str:
    """`me@gpu7` and `gpu7` are one machine; behind another port there may be another."""
    return name.rpartition("@")[2].removesuffix(":22").lower()


def fits(b: Baseline, now: Snapshot, *, strictly: bool = False) -> bool:
    """Whether model and cards are alike; what one side does not know fits, unless `strictly`."""
    model, cards = now.value("model.path"), list(now.gpu_names())
    if strictly and (model is None or not cards):
        return False
    same_model = model is None or b.conditions.model is None or settings.alike("model.path", b.conditions.model, model)
    same_cards = (
        not cards or not b.conditions.gpus or sorted(map(_short, cards)) == sorted(map(_short, b.conditions.gpus))
    )
    return same_model and same_cards


def _short(card: str) -> str:
    return re.sub(r"^NVIDIA |^Tesla ", "", card).strip().lower()


def snapshot(entry: Entry) -> Snapshot:
    """What a stored baseline knows."""
    return to_snapshot(entry.baseline)


def passport(*, host: str | None, why: str | None, by: str, tool: str, taken_at: str | None) -> Passport:
    """The passport of a fresh capture."""
    when = taken_at or datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Passport(captured_at=when, captured_by=by, host=host, why=why, tool=tool)


def speeds(b: Baseline) -> str:
    """`73.5 @1, 120 @2`: the output speeds a baseline holds, whole rounds before single prompts."""
    found: dict[float, float] = {}
    rows = sorted(b.numbers, key=lambda n: (n.workload is not None, n.prompts is None))
    for n in rows:
        if n.metric == "output_tok_s" and n.concurrency is not None:
            found[n.concurrency] = sum(n.values) / len(n.values)
    return ", ".join(f"{v:.3g} @{c:g}" for c, v in sorted(found.items())[:4]) or "-"
