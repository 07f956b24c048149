"""Who is named in a capture: hosts and users, found where names are written, then hidden wherever they stand."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import yaml

from dflash_doctor.bundle.aliases import Aliases

WORD = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}"
URL = re.compile(rf"[a-z][a-z0-9+]{{1,14}}://(?:[^/\s@'\"]{{1,200}}@)?({WORD})")
# gpu-a:132:301 [0] NCCL INFO …
NCCL = re.compile(rf"(?m)(?:^|[\s)\]])({WORD}):\d{{1,8}}:\d{{1,8}} \[\d{{1,3}}\] NCCL ")
# May 06 10:00:00 gpu-a kernel: …   2026-05-06T10:00:00+0000 gpu-a vllm[2101]: …
JOURNAL = re.compile(
    rf"(?m)^(?:[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{{1,6}})?"
    rf"|\d{{4}}-\d\d-\d\dT[\d:.,]{{8,18}}(?:Z|[+-]\d\d:?\d\d)) ({WORD}) [\w./@-]{{1,60}}(?:\[\d{{1,8}}\])?: "
)
HOME = re.compile(r"/(?:home|Users)/([A-Za-z_][\w.-]{0,63})")
HOST_VARIABLES = ("HOSTNAME", "HOST", "NODE_NAME", "POD_NAME", "MASTER_ADDR", "VLLM_HOST_IP", "SLURMD_NODENAME")
USER_VARIABLES = ("USER", "LOGNAME", "SUDO_USER", "USERNAME")
# addresses of the engines' own documentation and of public registries: they name nobody
PUBLIC = (
    "vllm.ai", "sglang.ai", "readthedocs.io", "github.com", "githubusercontent.com", "github.io", "huggingface.co",
    "hf.co", "modelscope.cn", "nvidia.com", "nvcr.io", "pytorch.org", "pypi.org", "python.org", "tiangolo.com",
    "docker.io", "docker.com", "kernel.org", "example.com", "example.org", "openai.com", "ray.io",
)  # fmt: skip
# words of logs: replaced everywhere they would take the diagnosis with them
COMMON = frozenset(
    """localhost local host hosts server servers node nodes gpu gpus cpu cuda nvidia amd intel vllm sglang docker podman
    container kernel worker workers master head main engine api app test dev prod root user users admin ubuntu debian
    linux model models serve serving inference llm default none null true false data home work workspace base nccl torch
    baseline python ray router proxy http https""".split()  # noqa: SIM905
)


class Hides(Protocol):
    """The collector's hider of secrets."""

    def text(self, text: str) -> str: ...
    def learn(self, value: str) -> None: ...
    def secret(self, name: str, value: str, counts: bool = False) -> bool: ...
    def argv(self, argv: list[str]) -> list[str]: ...


@dataclass(frozen=True)
class Names:
    """Hosts and users by name; `plain` are those that are also common words."""

    hosts: tuple[str, ...]
    users: tuple[str, ...]
    plain: tuple[str, ...] = ()

    def hidden(self, text: str, file: str, aliases: Aliases) -> str:
        """The text with stand-ins for every name; a user's home folder too, whatever the name."""
        text = HOME.sub(lambda m: m.group()[: -len(m[1])] + _user(m[1], file, aliases), text)
        text = _whole(self.users).sub(lambda m: _user(m.group(), file, aliases), text)
        return _whole(self.hosts).sub(
            lambda m: aliases.of("host name", m.group(), file, lambda n: f"host-{n}"), text
        )  # fmt: skip


def _whole(names: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the names as whole words; no names: nothing."""
    either = "|".join(re.escape(n) for n in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<![A-Za-z0-9_-])(?:{either})(?![A-Za-z0-9_-])" if names else r"(?!)")


def _user(name: str, file: str, aliases: Aliases) -> str:
    return name if re.fullmatch(r"user-\d+", name) else aliases.of("user name", name, file, lambda n: f"user-{n}")


def found(files: Mapping[str, str], large: Iterable[str], hider: Hides) -> Names:
    """The names in all files; secrets of the environment and the command line are learnt on the way."""
    hosts: dict[str, None] = {}
    users: dict[str, None] = {}
    for name, value in _pairs(files):
        if hider.secret(name, value):
            hider.learn(value)
        if name in HOST_VARIABLES:
            hosts[value] = None
        if name in USER_VARIABLES:
            users[value] = None
    for text in (files.get("cmdline"), files.get("cmdline.txt")):
        hider.argv(_words(text or ""))
    for said in _heads(files):
        user, _, host = said.rpartition("@")
        hosts[host.partition("://")[2].partition("/")[0] or host] = None
        users[user] = None
    for text in (*files.values(), *large):
        for pattern in (URL, NCCL, JOURNAL):
            hosts.update(dict.fromkeys(pattern.findall(text)))
        users.update(dict.fromkeys(HOME.findall(text)))
    kept_hosts, plain_hosts = _sorted(n for host in hosts for n in _spellings(host))
    kept_users, plain_users = _sorted(users)
    return Names(kept_hosts, kept_users, tuple(dict.fromkeys((*plain_hosts, *plain_users))))


def _pairs(files: Mapping[str, str]) -> list[tuple[str, str]]:
    text = files.get("environ") or files.get("environ.txt") or ""
    rows = (row.partition("=") for row in re.split(r"[\0\r\n]+", text))
    return [(name.strip(), value.strip()) for name, equals, value in rows if equals]


def _words(text: str) -> list[str]:
    if "\0" in text:
        return text.split("\0")
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _heads(files: Mapping[str, str]) -> list[str]:
    """What capture.yaml and host.json call the host."""
    out: list[str] = []
    for name in ("capture.yaml", "host.json"):
        try:
            read = (yaml.safe_load if name.endswith("yaml") else json.loads)(files.get(name, ""))
        except (yaml.YAMLError, ValueError, RecursionError):
            continue
        if isinstance(read, dict):
            out += [v for k in ("host", "hostname", "nodename", "target") if isinstance(v := read.get(k), str)]
    return out


def _spellings(host: str) -> tuple[str, ...]:
    """gpu7.corp.example:22 -> the name, and its first part alone; nothing for addresses and public places."""
    name = re.sub(r":\d+$", "", host.strip().rstrip(".")).strip("[]")
    if (
        not re.fullmatch(WORD, name)
        or re.fullmatch(r"[\d.]+", name)
        or any(f".{name}".endswith(f".{p}") for p in PUBLIC)
    ):
        return ()
    first = name.partition(".")[0]
    return (name, first) if first != name and not first.isdigit() else (name,)


def _sorted(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names to replace everywhere, and those that are too common for that."""
    every = dict.fromkeys(n for n in names if n and not re.fullmatch(r"(?:host|user|mail)-\d+", n))
    common = [n for n in every if len(n) < 3 or n.lower() in COMMON or n.isdigit()]
    return tuple(n for n in every if n not in common), tuple(n for n in common if n not in ("localhost", "root"))
