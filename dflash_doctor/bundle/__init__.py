"""Capture -> a capture to hand on: who and where is hidden, what a diagnosis rests on stays.

    shared = bundle.redacted(capture, collect.hider(), names_of_files)
    shared.capture       the same files with stand-ins: host-1, user-1, 192.0.2.1, [prompt of 120 characters]
    shared.replaced      what was replaced by what, how often and where

Hidden are secrets, host names, users, addresses, serial numbers and the texts of prompts and answers. The same original
has the same stand-in in every file, so that lines can still be held against each other. Model names, paths below a home
folder, versions, flags and numbers stay: without them there is nothing to diagnose. Files of other names stay behind.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

import yaml

from dflash_doctor.bundle import addresses, names, texts
from dflash_doctor.bundle.aliases import Aliases, Replaced
from dflash_doctor.bundle.names import Hides
from dflash_doctor.model import Capture, Gap

__all__ = ["LIST", "Replaced", "Shared", "redacted"]

LIST = "replaced.yaml"
BLOCK = 1 << 20  # bytes of a long log at once, cut at a line end
TEXT_WITH_NULS = ("cmdline", "environ", "cmdline.txt", "environ.txt")


@dataclass(frozen=True)
class Shared:
    """A capture fit to be handed on."""

    capture: Capture
    replaced: tuple[Replaced, ...]
    left_behind: tuple[Gap, ...] = ()  # files that were not taken, and why
    doubts: tuple[str, ...] = ()  # names too plain to be replaced wherever they stand


def redacted(capture: Capture, hider: Hides, reads: Sequence[str], folder: Path | None = None) -> Shared:
    """Everything that a diagnosis reads, redacted. `reads`: patterns of those files; `folder`: room for long logs."""
    behind: list[Gap] = []
    files: dict[str, str] = {}
    for name, data in sorted(capture.files.items()):
        text = _text(name, data)
        if not any(fnmatch(name, known) for known in reads):
            behind.append(Gap(name, "no diagnosis reads it"))
        elif text is None:
            behind.append(Gap(name, "it is no text"))
        else:
            files[name] = text
    found = names.found(files, (block for path in capture.large.values() for block in _blocks(path)), hider)
    aliases = Aliases()
    hide = _hiding(found, hider, aliases)
    out = {hide("", name): hide(name, text).encode("utf-8", "surrogateescape") for name, text in files.items()}
    large = {hide("", name): _long(name, path, hide, folder) for name, path in capture.large.items()}
    gaps = tuple(Gap(g.what, hide("capture.yaml", g.why)) for g in capture.gaps)
    done = aliases.replaced()
    out[LIST] = _listed(done).encode()
    made = replace(capture, name="bundle", files=out, large=large, gaps=gaps)
    return Shared(made, done, tuple(behind), found.plain)


def _hiding(found: names.Names, hider: Hides, aliases: Aliases) -> Callable[[str, str], str]:
    """File name and text in, the text without what must not be handed on out."""

    def hide(file: str, text: str) -> str:
        for step in (texts.without_secrets(hider), texts.without_prompts, addresses.hidden, found.hidden):
            text = step(text, file, aliases)
        return text

    return hide


# -- bytes and text ---------------------------------------------------------------------------------------------------


def _text(name: str, data: bytes) -> str | None:
    """The text of a file, whatever Unix or Windows wrote it; None for what is none."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:8192] and name not in TEXT_WITH_NULS:
        wide = data[1:4:2] == b"\0\0"
        return data.decode("utf-16-le", "replace") if wide else None
    return data.decode("utf-8", "surrogateescape")


def _blocks(path: Path) -> Iterator[str]:
    """A long log in blocks of whole lines; gzip is read through."""
    import gzip

    with path.open("rb") as raw:
        packed = raw.peek(2)[:2] == b"\x1f\x8b"  # a buffered file shows its start without moving
        with gzip.GzipFile(fileobj=raw) if packed else raw as f:
            while block := f.read(BLOCK):
                rest = f.readline(BLOCK)
                yield (block + rest).decode("utf-8", "surrogateescape")


def _long(name: str, path: Path, hide: Callable[[str, str], str], folder: Path | None) -> Path:
    with tempfile.NamedTemporaryFile("wb", dir=folder, prefix="bundle-", delete=False) as out:
        for block in _blocks(path):
            out.write(hide(name, block).encode("utf-8", "surrogateescape"))
    return Path(out.name)


def _listed(rows: Sequence[Replaced]) -> str:
    """What was replaced, without the originals: it travels with the bundle."""
    told = [{"what": r.kind, "as": r.alias, "times": r.times, "in": list(r.files)} for r in rows]
    return yaml.safe_dump({"replaced": told}, sort_keys=False, allow_unicode=True, width=120)
