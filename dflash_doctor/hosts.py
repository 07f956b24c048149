"""TARGET -> Host: who is meant, and how ~/.ssh/config says to get there.

`gpu7`, `me@gpu7:2222` are SSH hosts, `localhost` is this machine, `http://…` a serving endpoint, and whatever has a
`/`, a known suffix or is `-` a capture on disk. A bare word is a host even where a folder of that name exists.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dflash_doctor.model import Host, Refused

SUFFIXES = (".log", ".gz", ".tar", ".tgz", ".txt", ".yaml", ".json")
NAME = re.compile(r"[\w.%-]+|[0-9A-Fa-f:.]+(%[\w.-]+)?")  # a host name, an alias of ssh_config, or an IPv6 address
USER = re.compile(r"[\w.@+\\-]+")  # it may end up in the shell line of a ProxyCommand: no spaces, no quotes
INCLUDE = re.compile(r"include(?:\s*=\s*|\s+)(?P<files>.+)", re.I)
INCLUDE_DEPTH = 16  # as OpenSSH has it
JUMP_DEPTH = 8


def resolve(text: str, ssh_config: Path | None = None, ssh: Mapping[str, str] | None = None) -> Host:
    """Who is meant. `ssh_config` replaces the user's and the system's own, `ssh` are options that count before both,
    as `ssh -o` has them; `options["note"]` is for stderr."""
    text = text.strip()
    if not text:
        raise Refused("the target is empty: name a host, localhost, an http:// address or a capture")
    if re.match(r"https?://", text, re.I):
        return _endpoint(text)
    if text.startswith("ssh://"):
        return _ssh(text, text[6:].rstrip("/"), ssh_config, given=_given(ssh))
    if match := re.match(r"([a-z][a-z0-9+.-]*)://", text, re.I):
        raise Refused(f"{match[1]}:// addresses are not known: write http://, https:// or ssh://, a host, or a path")
    if text in ("-", ".", "..") or "/" in text or text.lower().endswith(SUFFIXES):
        return Host(text, "capture", text)
    if text == "localhost":
        return Host(text, "local", "localhost", options=_note(text))
    return _ssh(text, text, ssh_config, given=_given(ssh))


def aliases(ssh_config: Path | None = None) -> tuple[str, ...]:
    """The hosts that the ssh configuration names one by one, in its order; patterns are no names."""
    rows = (re.match(r"host(?:\s*=\s*|\s+)(.+)", line, re.I) for line in _config_lines(ssh_config))
    words = (w.strip('"') for row in rows if row for w in row[1].split())
    return tuple(dict.fromkeys(w for w in words if not re.search(r"[*?!]", w)))


def _given(ssh: Mapping[str, str] | None) -> tuple[str, ...]:
    """Options as lines of a configuration; one that would begin another block or file is none."""
    lines = []
    for key, value in (ssh or {}).items():
        if not re.fullmatch(r"[A-Za-z]+", key) or key.lower() in ("host", "match", "include") or "\n" in value:
            raise Refused(f"{key!r} is not an option of ssh that can be given for a host")
        lines.append(f"{key} {value}")
    return ("Host *", *lines) if lines else ()


def _endpoint(text: str) -> Host:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as e:
        raise Refused(f"{text} is not an address: {e}") from e
    if not parts.hostname:
        raise Refused(f"{text} names no host")
    path = re.sub(r"/v1/?$|/$", "", parts.path)  # people paste the base URL of their client
    return Host(text, "url", f"{parts.scheme.lower()}://{parts.netloc}{path}", port)


def _ssh(target: str, text: str, ssh_config: Path | None, depth: int = 0, given: tuple[str, ...] = ()) -> Host:
    import paramiko  # takes a tenth of a second, which only SSH hosts need to wait for

    user, name, port = _split(target, text)
    try:
        config = paramiko.SSHConfig.from_text("\n".join([*given, *_config_lines(ssh_config)]))
        said: dict[str, Any] = dict(config.lookup(name))
    except (paramiko.ConfigParseError, paramiko.CouldNotCanonicalize) as e:
        raise Refused(f"the ssh configuration cannot be used: {e}") from e
    except ImportError as e:  # paramiko runs `Match exec` through another package
        raise Refused(f"the ssh configuration uses `Match exec`, which needs the package invoke: {e}") from e
    jumps = _jumps(name, str(said.get("proxyjump") or "none"), ssh_config, depth)
    return Host(
        target=target,
        kind="ssh",
        address=said.get("hostname", name),
        port=port or _port(target, str(said.get("port", 22))),
        user=user or said.get("user"),
        options={**said, "alias": name, "jumps": jumps, **(_note(name) if depth == 0 else {})},
    )


def _jumps(name: str, through: str, ssh_config: Path | None, depth: int) -> tuple[Host, ...]:
    """The hosts of `ProxyJump a,b` in the order they are gone through; only the first one's own jumps count."""
    if through.lower() == "none":
        return ()
    if depth >= JUMP_DEPTH:
        raise Refused(f"ProxyJump of {name} goes round in circles: {through}")
    texts = [t.strip().removeprefix("ssh://") for t in through.split(",")]
    if texts == [name]:  # `Host *` with a ProxyJump holds for the jump host itself too
        return ()
    hops = [_ssh(t, t, ssh_config, depth + 1) for t in texts]
    return (*hops[0].options["jumps"], *hops)


def _split(target: str, text: str) -> tuple[str | None, str, int | None]:
    """`me@gpu7:2222`, `[::1]:22`, `::1` -> user, name, port."""
    user, at, rest = text.rpartition("@")
    if at and not USER.fullmatch(user):
        raise Refused(f"{target!r} is not a target: the user name {user!r} cannot be used")
    port = None
    if match := re.fullmatch(r"\[(?P<name>[^\]]+)\](?::(?P<port>.*))?", rest):
        name, tail = match["name"], match["port"]
        port = _port(target, tail) if tail is not None else None
    elif rest.count(":") == 1:
        name, _, tail = rest.partition(":")
        port = _port(target, tail)
    else:
        name = rest
    if not NAME.fullmatch(name) or name.startswith("-"):
        raise Refused(
            f"{target!r} is not a target: write a host (gpu7, me@gpu7:2222), localhost, http://host:port, or a capture "
            "(a path with a /, or a .log, .tar.gz … file)"
        )
    return user or None, name, port


def _port(target: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:6]) < 65536:
        raise Refused(f"{target!r}: {text!r} is not a port")
    return int(text)


def _note(name: str) -> dict[str, str]:
    if not Path(name).exists():
        return {}
    return {"note": f"{name} is taken as a host; for the file or folder of that name here, write ./{name}"}


def _config_lines(ssh_config: Path | None) -> Iterator[str]:
    """The user's lines, then the system's: the first value of each option counts."""
    if ssh_config is not None:
        yield from _lines(ssh_config, ssh_config.parent, must=True)
        return
    user = Path.home() / ".ssh" / "config"
    yield from _lines(user, user.parent)
    yield "Host *"
    yield from _lines(Path("/etc/ssh/ssh_config"), Path("/etc/ssh"))


def _lines(path: Path, folder: Path, must: bool = False, depth: int = 0) -> Iterator[str]:
    """Lines of one file with its `Include`s in their place (paramiko knows no Include)."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as e:
        if must:
            raise Refused(f"{path}: no such ssh configuration file") from e
        return
    except OSError as e:
        raise Refused(f"the ssh configuration {path} cannot be read: {e.strerror}") from e
    block = "Host *"
    for raw in text.splitlines():
        line = raw.strip()
        if re.match(r"(host|match)[\s=]", line, re.I):
            block = line
        match = INCLUDE.fullmatch(line)
        if match is None:
            yield line
            continue
        if depth >= INCLUDE_DEPTH:
            raise Refused(f"the ssh configuration includes itself: {path}")
        for pattern in match["files"].split():
            at = Path(pattern.strip('"')).expanduser()
            for name in sorted(glob.glob(str(at if at.is_absolute() else folder / at))):
                yield from _lines(Path(name), folder, depth=depth + 1)
        yield block  # the included file may have ended inside a Host of its own
