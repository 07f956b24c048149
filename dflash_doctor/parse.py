"""Capture -> Snapshot: runs the parsers over the files they read and puts their facts together.

A parser that cannot understand its text raises Unreadable, which becomes a Gap; the others go on. Where several sources
speak of one setting the strongest saying wins: what the engine says it runs, then what was asked for, then the
default of that version.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatch
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from dflash_doctor import parsers, settings
from dflash_doctor.model import Capture, Facts, Gap, Setting, Snapshot, Unreadable
from dflash_doctor.parsers import logs

NUMBERED = re.compile(r"server\.\d+\.log(\.gz)?")
A_YEAR = 366 * 86400.0  # an undated log counts seconds from its start
UNPACKED, GROWS = 1 << 30, 100  # gzip makes a log five to fifty times smaller; what grows further is no log
GZIP, UTF16 = b"\x1f\x8b", (b"\xff\xfe", b"\xfe\xff")
STRENGTH = {"default": 0, "asked": 1, "effective": 2}


def parse(capture: Capture) -> Snapshot:
    """Everything the capture says, as one snapshot. Raises Unreadable when no file of it can be read."""
    gaps = list(capture.gaps)
    read: list[tuple[str, Facts]] = []
    for name in sorted({**capture.files, **capture.large}):
        for parser in parsers.ALL:
            if not any(fnmatch(name.removesuffix(".gz"), pattern) for pattern in parser.READS):
                continue
            try:
                read.append((name, _facts(parser, capture, name)))
            except Unreadable as e:
                gaps.append(Gap(name, str(e)))
    if not read:
        raise Unreadable(_nothing(capture, gaps))
    return _snapshot(capture.name, _in_sequence(read), tuple(gaps))


def _facts(parser: parsers.Parser, capture: Capture, name: str) -> Facts:
    """What one file says; a long log is never decoded as a whole."""
    source = name.removesuffix(".gz")
    if name in capture.large:
        return _large(capture.large[name], source)
    raw = capture.files[name]
    if parser is logs and len(raw) > logs.SMALL and not raw.startswith((*UTF16, GZIP)) and not _utf16_unmarked(raw):
        return logs.parse_large(BytesIO(raw), source)
    return parser.parse(text_of(raw, name), source)


def _large(path: Path, source: str) -> Facts:
    """A log that lies on disk, read through gzip if it is that."""
    try:
        with path.open("rb", buffering=0) as f:
            packed = f.read(2) == GZIP
            f.seek(0)
            if not packed:
                return logs.parse_large(f, source)
            bounded = _Bounded(gzip.GzipFile(fileobj=f), max(UNPACKED, GROWS * path.stat().st_size))
            facts = logs.parse_large(bounded, source)
            return replace(facts, gaps=(*facts.gaps, *bounded.gaps(source)))
    except (OSError, EOFError, zlib.error) as e:
        raise Unreadable(f"{path.name} cannot be read to its end: {e}") from e


class _Bounded:
    """A gzip stream, read up to a size."""

    def __init__(self, stream: gzip.GzipFile, most: int) -> None:
        self.stream, self.most, self.left = stream, most, most

    def readinto(self, buffer: Any, /) -> int:
        read = self.stream.readinto(buffer) if self.left > 0 else 0
        self.left -= read
        return read

    def gaps(self, source: str) -> tuple[Gap, ...]:
        why = f"unpacks to more than {self.most >> 20} MiB; the rest was not read"
        return () if self.left > 0 else (Gap(source, why),)


def _in_sequence(read: list[tuple[str, Facts]]) -> list[tuple[str, Facts]]:
    """Logs of one server that follow each other in time are its starts: all but the last are earlier ones.

    Logs that overlap are ranks or hosts of one start and stay side by side. Where logs tell no date their numbers tell
    the order, if each holds a whole start: of several hosts of one start only one opens the HTTP port.
    """
    logs = [(span, name, facts) for name, facts in read if name.startswith("server.") and (span := _span(facts))]
    logs.sort(key=lambda x: x[0])
    apart = all(a[0][1] < b[0][0] for a, b in pairwise(logs))
    if not apart and all(NUMBERED.fullmatch(name) and _starts(facts) for _, name, facts in logs):
        logs.sort(key=lambda x: int(x[1].split(".")[1]))
        apart = len({str(s.value) for _, _, f in logs for s in f.settings if s.key == "model.path"}) <= 1
    if len(logs) < 2 or not apart or len({facts.engine for _, _, facts in logs}) > 1:
        return read
    *before, (_, last, facts) = logs
    earlier = tuple(boot for _, _, f in before for boot in (*f.earlier, replace(f, earlier=())))
    whole = replace(facts, earlier=(*earlier, *facts.earlier))
    gone = {name for _, name, _ in before}
    return [(name, whole if name == last else f) for name, f in read if name not in gone]


def _starts(facts: Facts) -> bool:
    """Whether the log has no date and shows a server that opened its port."""
    undated = all(s.time is None or s.time < A_YEAR for s in facts.signals)
    return undated and any(s.id in ("engine.ready", "engine.http_ready") for s in facts.signals)


def _span(facts: Facts) -> tuple[float, float] | None:
    """First and last time that a log tells; None for a file that is no log with times."""
    times = [t for t in (*(s.time for s in facts.signals), *(i.time for i in facts.intervals)) if t is not None]
    return (min(times), max(times)) if times else None


def text_of(raw: bytes, name: str) -> str:
    """The text of a file as people have it: gzip, UTF-16 from Windows, a byte-order mark, any stray bytes."""
    if name.endswith(".gz") or raw.startswith(GZIP):
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as e:
            raise Unreadable(f"half-written or damaged gzip file: {e}") from e
    if raw.startswith(UTF16):
        return raw.decode("utf-16", errors="replace")
    if _utf16_unmarked(raw):
        return raw.decode("utf-16-le", errors="replace")
    return raw.decode("utf-8-sig", errors="replace")


def _utf16_unmarked(raw: bytes) -> bool:
    return len(raw) > 3 and raw[1:4:2] == b"\0\0" and raw[0] != 0


def _nothing(capture: Capture, gaps: list[Gap]) -> str:
    if not capture.files and not capture.large:
        return "; ".join(f"{g.what}: {g.why}" for g in gaps) or "the capture is empty"
    why = "; ".join(f"{g.what}: {g.why}" for g in gaps) or f"no known file among {', '.join(sorted(capture.files)[:8])}"
    return f"nothing in this capture can be read ({why})"


def _snapshot(name: str, read: list[tuple[str, Facts]], gaps: tuple[Gap, ...]) -> Snapshot:
    facts = [f for _, f in read]
    host = _merged(f.host for f in facts)
    engine = (
        _first(f.engine for f in facts if f.engine != "other")
        or _text(host.get("engine"))
        or _first(f.engine for f in facts)
    )
    version = _version(engine, facts)
    said = [s for f in facts for s in f.settings]
    if engine in ("vllm", "sglang"):
        said.extend(_from_environment(engine, version, said))
        if any(s.said == "asked" and not s.key.startswith("env.") for s in said):
            # where no launch line and no argument list was read, an unset flag is not known to be unset
            said.extend(settings.defaults(engine, version) if version else settings.constant_defaults(engine))
    return Snapshot(
        name=name,
        engine=engine,
        version=version,
        taken_at=_text(host.get("taken_at")),
        settings=_strongest(said),
        asked=_strongest(s for s in said if s.said == "asked"),
        signals=tuple(s for f in facts for s in f.signals),
        samples=tuple(s for f in facts for s in f.samples),
        intervals=tuple(i for f in facts for i in f.intervals),
        counters=tuple(c for f in facts for c in f.counters),
        readings=tuple(r for f in facts for r in f.readings),
        packages=_merged(f.packages for f in facts),
        host=host,
        links=_merged_links(facts),
        gaps=tuple(dict.fromkeys((*gaps, *(g for f in facts for g in f.gaps)))),
        served=_served(facts),
        sources=tuple(dict.fromkeys(n for n, _ in read)),
        earlier=tuple(_boot(name, e, n, read) for n, f in read for e in f.earlier),
    )


def _boot(name: str, facts: Facts, source: str, read: list[tuple[str, Facts]]) -> Snapshot:
    """An earlier server start: what its part of the log says, on the same machine with the same packages."""
    machine = [(n, Facts(host=f.host, links=f.links)) for n, f in read if n != source]
    return _snapshot(f"{name}, previous start", [(source, replace(facts, earlier=())), *machine], ())


def _from_environment(engine: str, version: str | None, said: list[Setting]) -> list[Setting]:
    """What environment variables ask for, where this version of this engine still reads them."""
    variables = {s.key.removeprefix("env."): s for s in said if s.key.startswith("env.") and s.said == "asked"}
    shown = {name: s.evidence for name, s in variables.items() if s.evidence is not None}
    asked = settings.from_environ(engine, {n: str(s.value) for n, s in variables.items()}, version, shown)
    return [s for s in asked if not s.key.startswith("env.")]


def _version(engine: str | None, facts: list[Facts]) -> str | None:
    said = _first(f.version for f in facts if f.version and f.engine in (None, engine))
    if said or engine is None:
        return said
    installed = _merged(f.packages for f in facts).get(engine)
    return installed if installed and installed[0].isdigit() else None  # a git URL is no version


def _strongest(said: Iterable[Setting]) -> Mapping[str, Setting]:
    """The strongest saying of each key; of equal ones the last, except that a list is not replaced by nothing."""
    best: dict[str, Setting] = {}
    for s in said:
        have = best.get(s.key)
        if have is None or _weight(s) > _weight(have) or (_weight(s) == _weight(have) and not _empty(s)):
            best[s.key] = s
    return best


def _weight(s: Setting) -> int:
    # an engine that answers "auto" has not said what it runs: what was asked for says more
    return -1 if _empty(s) else STRENGTH[s.said]


def _empty(s: Setting) -> bool:
    return s.value in (None, "", "auto", ())


def _served(facts: list[Facts]) -> bool | None:
    said = [f.served for f in facts if f.served is not None]
    return None if not said else all(said)


def _merged(maps: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for m in maps:
        for k, v in m.items():
            if v is not None:
                out[k] = v
    return out


def _merged_links(facts: list[Facts]) -> dict[tuple[int, int], str]:
    return {pair: link for f in facts for pair, link in f.links.items()}


def _first(items: Iterable[str | None]) -> str | None:
    return next((i for i in items if i), None)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
