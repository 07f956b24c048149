"""Whether a host's key is the one we know, as OpenSSH decides it from its known_hosts files.

gpu7,10.0.0.7 ssh-ed25519 AAAA…            [gpu7]:2222 ecdsa-sha2-nistp256 AAAA…
|1|salt|hash ssh-ed25519 AAAA…             *.lab.example ssh-rsa AAAA…          @revoked * ssh-rsa AAAA…
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import paramiko

from dflash_doctor.model import Refused

Known = Literal["known", "unknown", "changed", "revoked"]


@dataclass(frozen=True)
class Entry:
    """One line: the names it speaks of, and the key."""

    path: Path
    line: int
    marker: str
    names: str
    kind: str
    key: str  # base64

    def speaks_of(self, name: str) -> bool:
        """Whether this line is about a host of this name (`gpu7`, `[gpu7]:2222`)."""
        if self.names.startswith("|1|"):
            return self._hashed(name)
        hit = False
        for pattern in self.names.split(","):
            # brackets hold a port here, not a set of characters
            plain = pattern.lstrip("!").replace("[", "[[]").lower()
            if fnmatchcase(name.lower(), plain):
                if pattern.startswith("!"):
                    return False
                hit = True
        return hit

    def _hashed(self, name: str) -> bool:
        try:
            salt, digest = (base64.b64decode(part) for part in self.names.split("|")[2:4])
        except ValueError:
            return False
        return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)


def read(paths: Iterable[Path]) -> list[Entry]:
    """Every usable line of these files; files and lines that cannot be read are passed over, as OpenSSH does."""
    entries = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            cells = line.split()
            marker = cells.pop(0) if cells and cells[0].startswith("@") else ""
            if len(cells) >= 3 and not cells[0].startswith("#"):
                entries.append(Entry(path, number, marker, *cells[:3]))
    return entries


def lookup_name(host: str, port: int) -> str:
    """The name under which a host is written down."""
    return host if port == 22 else f"[{host}]:{port}"


def judge(entries: Iterable[Entry], name: str, kind: str, key: str) -> tuple[Known, Entry | None]:
    """What is known of this key under this name, and the line that says so."""
    other: Entry | None = None
    known: Entry | None = None
    for entry in entries:
        if entry.marker == "@cert-authority" or not entry.speaks_of(name):
            continue
        if entry.marker == "@revoked":
            if entry.key == key:
                return "revoked", entry
        elif entry.key == key:
            known = known or entry
        elif entry.kind == kind:
            other = other or entry
    if known is not None:
        return "known", known
    return ("changed", other) if other is not None else ("unknown", None)


def kinds(entries: Iterable[Entry], name: str) -> list[str]:
    """Key types that are known of this host: to be asked for first, so that a known key is the one we see."""
    return list(dict.fromkeys(e.kind for e in entries if not e.marker and e.speaks_of(name)))


def fingerprint(key: bytes) -> str:
    """`SHA256:…` as ssh prints it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def fingerprint_of(entry: Entry) -> str:
    """Type and fingerprint of the key on a line."""
    try:
        return f"{entry.kind} {fingerprint(base64.b64decode(entry.key))}"
    except ValueError:
        return f"{entry.kind} (damaged)"


def write(path: Path, name: str, key: paramiko.PKey, hashed: bool) -> None:
    """Add a key that was accepted, as ssh would."""
    shown = name
    if hashed:
        salt = os.urandom(20)
        digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
        shown = f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = not path.exists()
        with path.open("ab+") as f:
            # a last line without its end must not swallow ours
            size = f.seek(0, os.SEEK_END)
            if size and path.read_bytes()[-1:] != b"\n":
                f.write(b"\n")
            f.write(f"{shown} {key.get_name()} {key.get_base64()}\n".encode())
        if fresh and path.is_file():
            path.chmod(0o600)
    except OSError as e:
        raise Refused(f"the accepted host key cannot be written to {path}: {e.strerror or e}") from e
