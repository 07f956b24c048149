"""How to look, and what was found before the load."""

from __future__ import annotations

from dataclasses import dataclass

from dflash_doctor.model import Gap


@dataclass(frozen=True)
class Options:
    """What the user may say about one look at one host."""

    engine_port: int | None = None  # which engine, where several serve
    accept_new_host_key: bool = False
    api_key: str | None = None
    log: str | None = None  # path of the engine's log on the host, where it cannot be found
    timeout_s: float = 10.0  # to connect and log in
    deadline_s: float = 45.0  # for the whole look; every question has a shorter one of its own
    hertz: float = 2.0  # GPU samples a second while the load runs
    root: str | None = None  # a folder that stands for the host's `/`
    commands: str | None = None  # a folder looked into first for the host's commands
    shell_only: bool = False  # as if the host had no Python


@dataclass(frozen=True)
class Engine:
    """One server that was found, as the host sees it."""

    name: str  # "vllm" | "sglang"
    port: int
    address: str = "127.0.0.1"
    pid: int | None = None
    listens: bool | None = None  # None: cannot be seen
    tls: bool = False
    uds: str | None = None
    command: tuple[str, ...] = ()  # secrets hidden
    container: str | None = None
    started: float | None = None
    chosen: bool = False


@dataclass(frozen=True)
class Look:
    """What is known before any load: who serves here, and what could not be seen."""

    engines: tuple[Engine, ...] = ()
    chosen: Engine | None = None
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True)
class Endpoint:
    """Where the load goes: a base URL as reached from here."""

    url: str
    via: str  # "direct" | "ssh" | "local"
