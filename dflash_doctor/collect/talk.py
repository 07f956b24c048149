"""The collector's two ends: what we write to it, and what it says, whether over SSH or from a child process."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import Any, Protocol

import paramiko

from dflash_doctor.model import Gap

LINE = 16 << 20  # a longer line is no answer of ours
TOTAL = 192 << 20  # a host that says more than this is not telling us about itself
STUCK_S = 30.0  # a host that does not take what we send for so long will not any more
NOISE = 4096  # what a login shell may print before the loader speaks

SAFE_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class Talk(Protocol):
    """A program that runs somewhere."""

    def send(self, data: bytes) -> None: ...
    def recv(self) -> bytes: ...
    def stderr(self) -> str: ...
    def close(self) -> None: ...


class Channel:
    """A command on an SSH session channel."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        channel.settimeout(STUCK_S)

    def send(self, data: bytes) -> None:
        self._channel.sendall(data)

    def recv(self) -> bytes:
        while True:
            try:
                return self._channel.recv(65536)
            except TimeoutError:
                continue  # a silent host is no ended one; the session has its own deadlines

    def stderr(self) -> str:
        said = b""
        with contextlib.suppress(OSError):
            while self._channel.recv_stderr_ready() and len(said) < 8192:
                said += self._channel.recv_stderr(4096)
        return said.decode("utf-8", "replace").strip()

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._channel.close()


class Child:
    """The same command in a child process of ours."""

    def __init__(self, command: str) -> None:
        own = str(Path(sys.executable).parent)  # an environment's Python need not be on PATH
        env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{own}"}
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
            start_new_session=True,  # Ctrl-C reaches us; closing its stdin then ends it
        )  # fmt: skip
        self._said = b""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        while data := self._process.stderr.read(4096):
            self._said = (self._said + data)[-8192:]

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def recv(self) -> bytes:
        assert self._process.stdout is not None
        return os.read(self._process.stdout.fileno(), 65536)

    def stderr(self) -> str:
        self._listener.join(0.2)
        return self._said.decode("utf-8", "replace").strip()

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Heard:
    """Everything the collector has said so far; filled by a thread of its own, bounded against hostile hosts."""

    def __init__(self, talk: Talk) -> None:
        self.program: str | None = None  # "python" or "sh", once the loader has spoken
        self.noise = b""
        self.hello: dict[str, Any] = {}
        self.heard_at = 0.0
        self.engines: list[dict[str, Any]] = []
        self.gpus: dict[str, Any] = {}
        self.samples: list[dict[str, Any]] = []
        self.gaps: list[Gap] = []
        self.notes: list[str] = []
        self.over = False
        self._files: dict[str, list[bytes]] = {}
        self._current: str | None = None
        self._done: dict[str, int] = {}
        self._size = 0
        self._talk = talk
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._listen, name="collector", daemon=True)
        self._thread.start()

    def files(self) -> dict[str, bytes]:
        """The files as they are now."""
        with self._news:
            return {name: b"".join(parts) for name, parts in self._files.items()}

    def wait_for_program(self, seconds: float) -> str | None:
        """Which program the loader can run; None when it did not speak."""
        with self._news:
            self._news.wait_for(lambda: self.program or self.over, seconds)
        return self.program

    def times(self, what: str) -> int:
        """How often `done` was said of this."""
        return self._done.get(what, 0)

    def wait_for(self, what: str, times: int, seconds: float) -> bool:
        """Wait until `done` was said so often; False when it was not."""
        with self._news:
            self._news.wait_for(lambda: self.times(what) >= times or self.over, seconds)
        return self.times(what) >= times

    def _listen(self) -> None:
        rest = b""
        try:
            while data := self._talk.recv():
                lines = (rest + data).split(b"\n")
                rest = lines.pop()
                self._size += len(data)
                if len(rest) > LINE or self._size > TOTAL:
                    self._take_gap(
                        "host", f"it said more than {TOTAL >> 20} MiB, or a line without end; the rest was left"
                    )
                    self._talk.close()
                    break
                with self._news:
                    for line in lines:
                        self._take(line)
                    self._news.notify_all()
        except (OSError, EOFError):
            pass  # the connection ended; what was heard counts
        with self._news:
            if rest and self.program is None:
                self.noise = (self.noise + rest)[:NOISE]
            self.over = True
            self._news.notify_all()

    def _take(self, line: bytes) -> None:
        if self.program is None:
            # a login shell's own words come before ours
            if line.startswith(b"dflash-doctor "):
                self.program = line.split()[1].decode("ascii", "replace")
            else:
                self.noise = (self.noise + line + b"\n")[:NOISE]
        elif self.program == "sh":
            self._take_plain(line)
        else:
            self._take_json(line)

    def _take_json(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            return  # not ours: a library on the host that prints
        if not isinstance(said, dict):
            return
        if "file" in said:
            self._take_file(said)
        elif "gap" in said:
            self._take_gap(str(said["gap"]), str(said.get("why", "")))
        elif "done" in said:
            self._take_done(str(said["done"]))
        elif isinstance(said.get("sample"), dict):
            self.samples.append(said["sample"])
        elif isinstance(said.get("engines"), list):
            self.engines = [e for e in said["engines"] if isinstance(e, dict)]
        elif isinstance(said.get("gpus"), dict):
            self.gpus = said["gpus"]
        elif "note" in said:
            self.notes.append(str(said["note"]))
        elif isinstance(said.get("hello"), dict):
            self.hello, self.heard_at = said["hello"], time.time()

    def _take_file(self, said: dict[str, Any]) -> None:
        name = str(said["file"])
        if not name or not SAFE_NAME.issuperset(name) or name.startswith(".") or len(name) > 80:
            return
        try:
            data = _unpacked(said["z"]) if "z" in said else str(said.get("data", "")).encode()
        except (ValueError, TypeError, zlib.error, UnicodeEncodeError):
            self._take_gap(name, "a part of it arrived damaged")
            return
        self._size += len(data)
        if said.get("new") or name not in self._files:
            self._files[name] = []
        self._files[name].append(data)

    def _take_plain(self, line: bytes) -> None:
        """The shell program's answers: `@file NAME`, then `|` in front of each of its lines; `@gap WHAT<tab>WHY` …"""
        if line.startswith(b"|"):
            if self._current is not None:
                self._files[self._current].append(line[1:] + b"\n")
            return
        word, _, tail = line.decode("utf-8", "replace").partition(" ")
        cells = tail.split("\t")
        if word == "@file" and SAFE_NAME.issuperset(tail) and tail:
            self._current = tail
            self._files.setdefault(tail, [])
        elif word == "@gap":
            self._take_gap(cells[0], cells[-1])
        elif word == "@note":
            self.notes.append(tail)
        elif word == "@done":
            self._take_done(tail)
        elif word == "@hello":
            self.hello, self.heard_at = {"clock": _number(tail)}, time.time()
        elif word == "@sample":
            self._take_json(b'{"sample": ' + tail.encode() + b"}")
        elif word == "@engine" and len(cells) == 4:
            self.engines.append({
                "engine": cells[0], "pid": _number(cells[1]), "port": _number(cells[2]), "address": "127.0.0.1",
                "chosen": cells[3] == "1",
            })  # fmt: skip

    def _take_gap(self, what: str, why: str) -> None:
        if len(self.gaps) < 500:
            self.gaps.append(Gap(what[:200], why[:4000]))

    def _take_done(self, what: str) -> None:
        self._done[what] = self._done.get(what, 0) + 1


def _unpacked(packed: str) -> bytes:
    """Bounded: a few bytes must not become gigabytes."""
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(base64.b64decode(packed), LINE)
    if not unpacking.eof:
        raise ValueError("more than a line may hold")
    return data


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None
