"""Captures on disk: a folder, an archive, one lone log, or text on stdin; written whole or not at all."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import stat
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

import yaml

from dflash_doctor.collect import assemble
from dflash_doctor.model import Capture, Gap, Refused

LARGE = 8 << 20  # bytes; a longer log is not held but read where it lies
HEAD, TAIL = 48 << 20, 16 << 20  # of a larger file these are kept
UNPACKED = 1 << 30  # an archive or gzip file that grows beyond this is not read further
ARCHIVES = (".tar.gz", ".tgz", ".tar")
LOGS = ("server.log", "server.*.log")
# files that say by their name what they are, also alone; any other text is a log
KNOWN = (
    *LOGS, "cmdline", "environ", "metrics.prom", "server_info.json", "models.json",
    "version.json", "gpu.json", "nvidia-smi.*", "topology.txt", "dmesg.txt", "nccl.log", "packages.txt", "host.json",
    "load.json", "load.txt", "load.yaml", "capture.yaml",
)  # fmt: skip
TEXT_WITH_NULS = ("cmdline", "environ")


def save(capture: Capture, path: Path | str, *, replace: bool = False) -> Path:
    """Write a capture as a folder or, by its suffix, as an archive: all of it appears at once, or nothing."""
    path = Path(path)
    if not replace:
        check_free(path)
    whole = with_gaps(capture)
    every: dict[str, bytes | Path] = {**whole.files, **whole.large}
    files = {name: data for name, data in every.items() if _plain(name)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name.endswith(ARCHIVES):
            _save_archive(files, path, PurePosixPath(path.name.split(".tar")[0].removesuffix(".tgz")))
        else:
            _save_folder(files, path)
    except OSError as e:
        raise Refused(f"the capture cannot be written to {path}: {e.strerror or e}") from e
    return path


def check_free(path: Path) -> None:
    """Refused when a capture cannot go there; asked before a host is troubled for it."""
    try:
        taken = path.exists() and not (path.is_dir() and not any(path.iterdir()))
    except OSError as e:
        raise Refused(f"the capture cannot be written to {path}: {e.strerror or e}") from e
    if taken:
        raise Refused(f"{path} is there already: choose another name for the capture")
    near = next((p for p in (path, *path.parents) if p.exists()), Path())
    if not near.is_dir() or not os.access(near, os.W_OK | os.X_OK):
        why = "no right to write there" if near.is_dir() else f"{near} is no folder"
        raise Refused(f"the capture cannot be written to {path}: {why}")


def with_gaps(capture: Capture) -> Capture:
    """The same capture with its gaps in capture.yaml, where load() finds them."""
    return assemble.with_head(capture, {k: v for k, v in _head(capture.files).items() if k != "gaps"})


def _save_folder(files: dict[str, bytes | Path], path: Path) -> None:
    beside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        for name, data in files.items():
            if isinstance(data, Path):
                shutil.copyfile(data, beside / name)
            else:
                (beside / name).write_bytes(data)
        beside.chmod(0o777 & ~_umask())
        if path.exists():
            old = beside.with_name(beside.name + "-old")
            path.rename(old)
            beside.rename(path)
            shutil.rmtree(old)
        else:
            beside.rename(path)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _save_archive(files: dict[str, bytes | Path], path: Path, top: PurePosixPath) -> None:
    fd, beside = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as raw:
            packed: Any = raw if path.name.endswith(".tar") else gzip.GzipFile("", "wb", 6, raw, mtime=0)
            with tarfile.open(fileobj=packed, mode="w") as tar:
                for name in sorted(files):
                    data = files[name]
                    with data.open("rb") if isinstance(data, Path) else io.BytesIO(data) as f:
                        member = tarfile.TarInfo(str(top / name))
                        member.size, member.mode = f.seek(0, io.SEEK_END), 0o644
                        f.seek(0)
                        tar.addfile(member, f)
            if packed is not raw:
                packed.close()
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def _umask() -> int:
    now = os.umask(0o022)
    os.umask(now)
    return now


# -- reading ----------------------------------------------------------------------------------------------------------


def load(path: Path | str) -> Capture:
    """A capture from disk, or from stdin for `-`. Raises Refused when there is nothing in it that could be one."""
    if str(path) == "-":
        return _load_stream(sys.stdin.buffer, "stdin", "server.log")
    path = Path(path)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return _load_folder(path)
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
            raise Refused(f"{path} is a device, not a capture")
        with path.open("rb") as f:
            return _load_stream(f, path.name, _name_alone(path), path)
    except FileNotFoundError as e:
        raise Refused(f"{path}: no such file or folder") from e
    except OSError as e:
        raise Refused(f"{path} cannot be read: {e.strerror or e}") from e


def _name_alone(path: Path) -> str:
    """The capture-folder name of a file that was given alone."""
    name = path.name.removesuffix(".gz")
    if any(fnmatch(name, known) for known in KNOWN):
        return name
    if name.endswith((".yaml", ".yml")) and _starts_as_baseline(path):
        raise Refused(
            f"{path} is a baseline, no capture: give it with --baseline, and a host or a capture as the target"
        )
    if name.endswith((".yaml", ".yml", ".json")):
        raise Refused(
            f"{path} is no capture: of .yaml and .json files only those of a capture folder can stand alone "
            "(load.yaml, gpu.json, server_info.json …); a capture is a folder, an archive or a log"
        )
    return "server.log"


def _starts_as_baseline(path: Path) -> bool:
    with path.open("rb") as f:
        return f.read(200).lstrip().startswith(b"schema: dflash-doctor/baseline/")


def _load_folder(path: Path) -> Capture:
    files: dict[str, bytes] = {}
    large: dict[str, Path] = {}
    gaps: list[Gap] = []
    for entry in sorted(path.iterdir()):
        name = entry.name.removesuffix(".gz")
        if entry.name.startswith(".") or not entry.is_file():
            continue
        try:
            with entry.open("rb") as f:
                data = _log_or_all(_unpacked(f), name, gaps)
            if data is None:
                large[name] = entry
            else:
                files[name] = data
        except OSError as e:
            gaps.append(Gap(name, f"{entry.name} cannot be read: {e.strerror or e}"))
        except (EOFError, zlib.error) as e:
            gaps.append(Gap(name, f"{entry.name} is damaged or half-written: {e}"))
    if not files and not large:
        why = f" ({gaps[0].why})" if gaps else _within(path)
        raise Refused(f"{path} holds no file that can be read{why}")
    return _capture(path.resolve().name, files, gaps, large)


def _within(path: Path) -> str:
    """A capture is one folder; people unpack archives and name the one above."""
    inner = [p.name for p in sorted(path.iterdir()) if p.is_dir() and not p.name.startswith(".")][:3]
    if not inner:
        return ""
    which = f"folder {inner[0]}: name that" if len(inner) == 1 else f"folders {', '.join(inner)}: name one of those"
    return f"; it holds the {which}"


def _load_stream(f: BinaryIO | IO[bytes], shown: str, name: str, path: Path | None = None) -> Capture:
    """One file of any kind: an archive by what it holds, else text under `name`. `path`: where it lies, if it does."""
    gaps: list[Gap] = []
    buffered = io.BufferedReader(_Raw(f), 1 << 16)
    try:
        start = buffered.peek(1024)[:1024]
        plain = io.BufferedReader(gzip.GzipFile(fileobj=buffered), 1 << 16) if start[:2] == b"\x1f\x8b" else buffered
        head = plain.peek(1024)[:1024]
        if head[257:262] == b"ustar":
            return _load_archive(plain, shown)
        if not head:
            raise Refused(f"{shown} is empty")
        data = _head_and_tail(plain, name, gaps) if path is None else _log_or_all(plain, name, gaps)
    except (EOFError, zlib.error, gzip.BadGzipFile) as e:
        raise Refused(f"{shown} is damaged or half-written: {e}") from e
    if data is None:
        assert path is not None
        return _capture(shown, {}, gaps, {name: path})
    if _binary(data) and name not in TEXT_WITH_NULS:
        raise Refused(f"{shown} is not text: a log, a capture folder or an archive of one is wanted")
    if not data.strip():
        raise Refused(f"{shown} is empty")
    return _capture(shown, {name: data}, gaps)


class _Raw(io.RawIOBase):
    """Any readable as a raw stream, so that its start can be looked at without taking it."""

    def __init__(self, f: BinaryIO | IO[bytes]) -> None:
        self._f = f

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._f.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _load_archive(f: IO[bytes] | io.BufferedReader, shown: str) -> Capture:
    files: dict[PurePosixPath, bytes] = {}
    gaps: list[Gap] = []
    total = 0
    try:
        with tarfile.open(fileobj=f, mode="r|") as tar:
            for member in tar:
                at = PurePosixPath(member.name)
                if not member.isfile() or any(part.startswith(".") and part != "." for part in at.parts):
                    if ".." in at.parts or at.is_absolute():
                        gaps.append(Gap(at.name, f"left out of {shown}: its path leads outside ({member.name})"))
                    continue
                if at.is_absolute():
                    gaps.append(Gap(at.name, f"left out of {shown}: its path leads outside ({member.name})"))
                    continue
                total += member.size
                if total > UNPACKED:
                    gaps.append(Gap(shown, f"more than {UNPACKED >> 30} GiB unpacked; the rest was not read"))
                    break
                inside = tar.extractfile(member)
                assert inside is not None
                files[at] = _head_and_tail(_unpacked(inside), at.name, gaps)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as e:
        raise Refused(f"{shown} is damaged or half-written: {e}; copy it again") from e
    if not files:
        why = f" ({gaps[0].why})" if gaps else ""
        raise Refused(f"{shown} holds no file that can be read{why}")
    # the capture is the folder nearest to the top that has files
    top = min((p.parent for p in files), key=lambda d: (len(d.parts), str(d)))
    near = {p.name.removesuffix(".gz"): data for p, data in files.items() if p.parent == top}
    return _capture(shown, near, gaps)


def _unpacked(f: IO[bytes] | BinaryIO) -> Any:
    """The same file, read through gzip if it is that."""
    buffered = io.BufferedReader(_Raw(f), 1 << 16)
    return gzip.GzipFile(fileobj=buffered) if buffered.peek(2)[:2] == b"\x1f\x8b" else buffered


def _log_or_all(f: Any, name: str, gaps: list[Gap]) -> bytes | None:
    """The bytes of a file on disk; None for a long log, which is better read where it lies."""
    start = b"".join(_blocks(f, LARGE)) if any(fnmatch(name, known) for known in LOGS) else b""
    if len(start) == LARGE and not _binary(start) and not _utf16(start):
        return None
    return _head_and_tail(f, name, gaps, start)


def _head_and_tail(f: Any, name: str, gaps: list[Gap], start: bytes = b"") -> bytes:
    """The first HEAD and the last TAIL bytes, cut at line ends; memory stays bounded whatever the length.

    `start`: what was read of the file already.
    """
    head = start + b"".join(_blocks(f, HEAD - len(start)))
    if len(head) < HEAD:
        return head
    tail, seen = bytearray(), HEAD
    for block in _blocks(f, UNPACKED - HEAD):
        tail += block
        seen += len(block)
        if len(tail) > 2 * TAIL:
            del tail[:-TAIL]
    if seen - HEAD <= TAIL:
        return head + bytes(tail)
    del tail[:-TAIL]
    size = f"{seen >> 20} MiB" if seen < UNPACKED else f"more than {UNPACKED >> 20} MiB"
    gaps.append(Gap(name, f"{size} long: the first {HEAD >> 20} MiB and the last {TAIL >> 20} MiB read were kept"))
    between = b"[dflash-doctor: a part of the file left out here]\n"
    return head[: head.rfind(b"\n") + 1] + between + bytes(tail[tail.find(b"\n") + 1 :])


def _blocks(f: Any, limit: int) -> Iterator[bytes]:
    while limit > 0 and (block := f.read(min(1 << 20, limit))):
        limit -= len(block)
        yield block


def _binary(data: bytes) -> bool:
    """NUL bytes that are not those of UTF-16."""
    return b"\0" in data[:8192] and not _utf16(data)


def _utf16(data: bytes) -> bool:
    return data[:2] in (b"\xff\xfe", b"\xfe\xff") or (len(data) > 3 and data[1:4:2] == b"\0\0" and data[0] != 0)


def _plain(name: str) -> bool:
    return bool(name) and "/" not in name and not name.startswith(".")


def _capture(name: str, files: dict[str, bytes], gaps: list[Gap], large: dict[str, Path] | None = None) -> Capture:
    said = _head(files).get("gaps")
    kept = [
        Gap(str(g["what"]), str(g["why"]))
        for g in (said if isinstance(said, list) else [])
        if isinstance(g, dict) and "what" in g and "why" in g
    ]
    return Capture(name, files, tuple(dict.fromkeys([*kept, *gaps])), large or {})


def _head(files: Any) -> dict[str, Any]:
    """capture.yaml as a mapping; empty when it is missing or no mapping (its parser says so)."""
    try:
        read = yaml.safe_load(files.get("capture.yaml", b"").decode("utf-8", "replace"))
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return {str(k): v for k, v in read.items()} if isinstance(read, dict) else {}
