"""From a TARGET to a capture: a stored one is read, a live one is asked, with a short load while the host looks on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from dflash_doctor import collect, hosts, load
from dflash_doctor.cli.progress import PATIENCE_S, Watch
from dflash_doctor.cli.streams import say
from dflash_doctor.model import Capture, Gap, Host, Refused, Snapshot


@dataclass(frozen=True)
class How:
    """What the user said about the look."""

    load: bool | None = None  # None: on for live targets; where it cannot be measured now the rest is still looked at
    preset: str = "quick"
    busy_ok: bool = False
    max_running: int = 0
    api: str | None = None
    engine_port: int | None = None
    accept_new_host_key: bool = False
    api_key_env: str | None = None
    api_key_file: Path | None = None
    ssh_config: Path | None = None
    log: str | None = None
    ssh: Mapping[str, str] | None = None  # options that count before the configuration
    was: Snapshot | None = None  # the tuned side, where it was named: a load ends as soon as it is decided


class Watched(Protocol):
    """Whoever is told what is being done, and may close the session when it takes too long."""

    def phase(self, text: str) -> None: ...
    def load(self, p: load.Progress) -> None: ...
    def opened(self, session: collect.AnySession) -> None: ...
    def note(self, text: str) -> None: ...


def host_of(target: str, how: How) -> Host:
    """Who is meant; a note about an ambiguous word goes to stderr."""
    host = hosts.resolve(target, how.ssh_config, how.ssh)
    if note := host.options.get("note"):
        say(f"note: {note}")
    return host


def capture_of(host: Host, how: How) -> Capture:
    """Everything the target says. Live targets get the load rounds unless told otherwise."""
    if host.kind == "capture":
        if how.load:
            raise Refused("a stored capture cannot be put under load; leave --load away")
        return _stored(host)
    with Watch(f"connecting to {host.target}") as watch:
        return visited(host, how, watch)


def visited(host: Host, how: How, watch: Watched) -> Capture:
    """Everything a live target says to one visit."""
    wanted = how.load is not False
    key = api_key(how)
    options = collect.Options(
        engine_port=how.engine_port, accept_new_host_key=how.accept_new_host_key, api_key=key, log=how.log
    )
    with collect.open_session(host, options) as session:
        watch.opened(session)
        watch.phase(f"looking at {host.target}")
        _several(session.look(), watch)
        document: bytes | None = None
        gap: Gap | None = None
        if wanted:
            document, gap = _loaded(session, how, key, watch)
        watch.phase(f"saying goodbye to {host.target}")
        capture = session.finish()
    if document is not None:
        capture = collect.added(capture, "load.json", document)
    return replace(capture, gaps=(*capture.gaps, gap)) if gap is not None else capture


def _stored(host: Host) -> Capture:
    if host.address == "-" and (sys.stdin is None or sys.stdin.isatty()):
        raise Refused("nothing is piped in: `docker logs vllm 2>&1 | dflash-doctor diagnose -`, or name a file")
    with Watch(f"reading {host.target}", PATIENCE_S):
        return collect.load(host.address)


def _loaded(session: collect.AnySession, how: How, key: str | None, watch: Watched) -> tuple[bytes | None, Gap | None]:
    end = session.endpoint()
    if isinstance(end, Gap):
        if how.load:
            raise Refused(f"no load can be run: {end.why}")
        return None, end
    watch.phase("load rounds")
    try:
        with _sampled(session):
            measured = load.run(
                end.url,
                preset_name=how.preset,
                api_key=key,
                busy_ok=how.busy_ok,
                max_running=how.max_running,
                api=how.api,
                was=None if how.was is None else load.against(how.was.samples),
                on_progress=watch.load,
            )
    except load.NotNow as e:
        if how.load:
            raise
        return None, Gap("load", str(e))
    return measured.model_dump_json(by_alias=True, indent=1).encode(), None


@contextmanager
def _sampled(session: collect.AnySession) -> Iterator[None]:
    """The host samples its GPUs and counters while the block runs."""
    session.load_begin()
    try:
        yield
    finally:
        session.load_end()


def _several(seen: collect.Look, watch: Watched) -> None:
    if len(seen.engines) > 1 and seen.chosen is not None:
        others = ", ".join(f"{e.name} on {e.port}" for e in seen.engines if e is not seen.chosen)
        watch.note(f"{seen.chosen.name} on port {seen.chosen.port} is looked at; also here: {others} (--engine-port)")


def api_key(how: How) -> str | None:
    """The engine's API key, from a variable or a file: argv is seen by everybody on this machine."""
    if how.api_key_env:
        key = os.environ.get(how.api_key_env, "")
        if not key:
            raise Refused(f"the variable {how.api_key_env} that should hold the API key is not set")
        return key
    if how.api_key_file:
        try:
            return how.api_key_file.read_text(encoding="utf-8").strip()
        except OSError as e:
            raise Refused(f"the API key cannot be read from {how.api_key_file}: {e.strerror}") from e
    return None
