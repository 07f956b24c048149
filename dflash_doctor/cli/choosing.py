"""Which baseline a target is held against: the one that was named, or the one that fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dflash_doctor import baselines, collect, hosts, parse
from dflash_doctor.cli.streams import say
from dflash_doctor.formats.baseline import to_snapshot
from dflash_doctor.model import Host, Snapshot


@dataclass(frozen=True)
class Chosen:
    """A baseline, or none, and why."""

    was: Snapshot | None
    name: str | None
    why: str
    notes: tuple[str, ...] = ()


Named = tuple[Snapshot, str]


def opened(store: Path | None) -> baselines.Store:
    """The store to read from; a folder that was named and is not there is worth a word."""
    if store is not None and not store.is_dir():
        say(f"note: there is no folder {store}: only the shipped baselines are known")
    return baselines.Store(store)


def names_of(host: Host) -> tuple[str, ...]:
    """What a live host is called. A file's name is no host's: two people's server.log are two machines."""
    if host.kind == "capture":
        return ()
    plain = host.port in (None, 22)  # behind another port of one address there may be another machine
    return (host.target, *((host.address,) if plain or host.kind == "url" else ()))


def chosen(now: Snapshot, names: Iterable[str], asked: Named | None, kept: baselines.Store, *, none: bool) -> Chosen:
    """The baseline for a host that is called `names`; `asked` is what the user named, `none` that they want none."""
    if none:
        return Chosen(None, None, "--no-baseline")
    if asked is not None:
        return Chosen(*asked, "named by --baseline")
    choice = baselines.choose(now, names, kept)
    if choice.entry is None:
        return Chosen(None, None, choice.why)
    return Chosen(baselines.snapshot(choice.entry), choice.entry.name, choice.why)


def named(text: str, kept: baselines.Store) -> Named:
    """A stored baseline's name, a path to a baseline YAML, or a capture on disk (CONTRACTS.md §1)."""
    if not _is_path(text):
        entry = kept.load(text)
        return baselines.snapshot(entry), entry.name
    if text.lower().endswith((".yaml", ".yml")) and not Path(text).is_dir():
        baseline = baselines.read(Path(text))
        return to_snapshot(baseline), baseline.name
    return parse.parse(collect.load(text)), text


def _is_path(text: str) -> bool:
    # names of baselines have dots in them, so only what hosts.py calls a path is one
    return text in ("-", ".", "..") or "/" in text or text.lower().endswith(hosts.SUFFIXES)
