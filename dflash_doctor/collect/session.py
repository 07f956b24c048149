"""One visit to one host from our side: look, load-begin, load-end, finish -> Capture.

Only opening it raises Refused. Whatever the host does afterwards becomes a Gap, and what was heard until then counts.
"""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import asdict
from types import TracebackType
from typing import Any

import httpx
import paramiko

from dflash_doctor.collect import assemble, program, ssh
from dflash_doctor.collect.options import Endpoint, Engine, Look, Options
from dflash_doctor.collect.talk import Channel, Child, Heard, Talk
from dflash_doctor.model import Capture, Gap, Host

DIRECT_S = 1.5  # to see whether the engine's port is reachable without SSH
COMMAND_S = 20.0  # for load-begin and load-end: one scrape and one GPU reading
GOODBYE_S = 5.0


class Session:
    """A visit over SSH, or to this machine through a child process: the same program, the same words."""

    def __init__(self, host: Host, options: Options) -> None:
        self.host, self.options = host, options
        self.connection: ssh.Connection | None = None
        self.began = time.time()
        self._sent: dict[str, int] = {}
        self._own_gaps: list[Gap] = []
        command = program.loader(options.shell_only)
        talk: Talk
        if host.kind == "ssh":
            self.connection = ssh.connect(host, accept_new=options.accept_new_host_key, timeout=options.timeout_s)
            try:
                talk = Channel(self.connection.run(f"exec sh -c {shlex.quote(command)}", options.timeout_s))
            except BaseException:
                self.connection.close()
                raise
        else:
            talk = Child(command)
        self._talk = talk
        self._heard = Heard(talk)
        self._seen: Look | None = None
        self._endpoint: Endpoint | Gap | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def look(self) -> Look:
        """Ask everything; returns who serves there as soon as every question has its answer or its gap."""
        if self._seen is None:
            self._ask()
            engines = tuple(_engine(e) for e in self._heard.engines)
            chosen = next((e for e in engines if e.chosen), None)
            self._seen = Look(engines, chosen, self.gaps)
        return self._seen

    def endpoint(self) -> Endpoint | Gap:
        """Where a load would go: straight to the engine where that is the same server, else through SSH."""
        if self._endpoint is None:
            self._endpoint = self._find_endpoint()
        return self._endpoint

    def _find_endpoint(self) -> Endpoint | Gap:
        engine = self.look().chosen
        if engine is None:
            return Gap("load", "there is no engine to send a load to")
        if engine.uds:
            return Gap("load", f"the engine listens on the unix socket {engine.uds} only; loads go to a port")
        if engine.listens is False:
            return Gap("load", f"nothing listens on port {engine.port}")
        scheme = "https" if engine.tls else "http"
        if self.connection is None:
            return Endpoint(f"{scheme}://{_bracketed(engine.address)}:{engine.port}", "local")
        straight = f"{scheme}://{_bracketed(self.host.address)}:{engine.port}"
        if self.connection.direct and engine.address == "127.0.0.1" and self._same_server(straight):
            return Endpoint(straight, "direct")
        try:
            address, port = self.connection.forward(engine.address, engine.port).address
        except (paramiko.SSHException, OSError, EOFError) as e:
            return Gap("load", f"{self.host.address} does not carry connections to its port {engine.port}: {e}")
        return Endpoint(f"{scheme}://{address}:{port}", "ssh")

    def load_begin(self) -> None:
        """The load starts now: the host scrapes /metrics and samples its GPUs from here on."""
        self._command("load-begin")

    def load_end(self) -> None:
        """The load has ended: a last scrape, CPU time of the load, one more GPU sample."""
        self._command("load-end")

    def finish(self) -> Capture:
        """Say goodbye and put together what was heard."""
        self.look()
        if not self._heard.over:
            self._command("stop", GOODBYE_S)
        self.close()
        return self.capture()

    def capture(self) -> Capture:
        """What was heard so far, as a capture; also after a visit that was cut short."""
        about = {
            "address": ssh.where(self.host) if self.host.kind == "ssh" else self.host.address,
            "collector": self._collector(),
            "seconds": round(time.time() - self.began, 2),
        }
        clock = self._heard.hello.get("clock")
        if isinstance(clock, (int, float)):
            about["clock"] = {"host": clock, "here": round(self._heard.heard_at, 3)}
        seen = self._seen or Look()
        return assemble.capture(self.host, self.began, seen, about, self._heard, self.gaps)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Everything that could not be seen so far."""
        return tuple(dict.fromkeys([*self._own_gaps, *self._heard.gaps]))

    def close(self) -> None:
        """End the visit; closing its stdin ends the program on the host with everything it started."""
        self._talk.close()
        if self.connection is not None:
            self.connection.close()

    # -- words over the wire ------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        options = self.options
        which = self._heard.wait_for_program(options.timeout_s)
        if which is None:
            said = self._heard.noise.decode("utf-8", "replace").strip() or self._talk.stderr()
            self._gap("host", f"its shell starts no program: {said[-500:] or 'it says nothing'}")
            return
        if which == "python":
            given = {k: v for k, v in asdict(options).items() if v is not None}
            given["deadline"] = options.deadline_s
            payload = program.python_payload(given)
        else:
            self._gap("collector", "no Python 3.6 or newer on the host; a shell script asked what it could")
            payload = program.shell_payload(asdict(options))
        if self._send(payload) and not self._heard.wait_for("look", 1, options.deadline_s + 5.0):
            self._lost(f"no complete answer within {options.deadline_s:g} s")

    def _command(self, command: str, seconds: float = COMMAND_S) -> None:
        self.look()
        self._sent[command] = self._sent.get(command, 0) + 1
        if self._send(command.encode() + b"\n") and not self._heard.wait_for(command, self._sent[command], seconds):
            self._lost(f"{command} was not answered within {seconds:g} s")

    def _send(self, data: bytes) -> bool:
        try:
            self._talk.send(data)
        except (OSError, EOFError) as e:
            self._lost(str(e) or type(e).__name__)
            return False
        return True

    def _lost(self, why: str) -> None:
        """The program on the host went silent: say so with its last words."""
        if self._heard.over:
            last = self._talk.stderr().splitlines()[-1:]
            why = f"the connection or the program on the host ended early{': ' + last[0] if last else ''}"
        self._gap("collector", why)

    def _gap(self, what: str, why: str) -> None:
        gap = Gap(what, program.hider().text(why))
        if gap not in self._own_gaps:
            self._own_gaps.append(gap)

    def _collector(self) -> str:
        python = self._heard.hello.get("python")
        return f"python {python}" if python else (self._heard.program or "none")

    def _same_server(self, url: str) -> bool:
        """Whether this address answers with the very models that the host's own port answers with."""
        inside = self._heard.files().get("models.json")
        if not inside:
            return False
        key = {"Authorization": f"Bearer {self.options.api_key}"} if self.options.api_key else {}
        try:
            # trust_env off: a proxy's answer is not the host's; the certificate is that of another name
            with httpx.Client(timeout=DIRECT_S, verify=False, trust_env=False) as client:
                answer = client.get(url + "/v1/models", headers=key)
                return answer.status_code == 200 and _models(answer.content) == _models(inside) != set()
        except (httpx.HTTPError, httpx.InvalidURL):
            return False


def _models(body: bytes) -> set[str]:
    """Names in an answer of /v1/models."""
    try:
        rows = json.loads(body).get("data", [])
        return {f"{r.get('id')} {r.get('root')} {r.get('max_model_len')}" for r in rows}
    except (ValueError, AttributeError, TypeError):
        return set()


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _engine(said: dict[str, Any]) -> Engine:
    """An engine as the host named it; odd values are left out."""
    port, pid, started = said.get("port"), said.get("pid"), said.get("started")
    command, listens = said.get("command"), said.get("listens")
    return Engine(
        name=str(said.get("engine", "?"))[:40],
        port=port if isinstance(port, int) and 0 < port < 65536 else 0,
        address=str(said.get("address") or "127.0.0.1")[:200],
        pid=pid if isinstance(pid, int) else None,
        listens=listens if isinstance(listens, bool) else None,
        tls=said.get("tls") is True,
        uds=str(said["uds"]) if said.get("uds") else None,
        command=tuple(str(w) for w in command) if isinstance(command, list) else (),
        container=str(said["container"]) if said.get("container") else None,
        started=float(started) if isinstance(started, (int, float)) else None,
        chosen=said.get("chosen") is True,
    )
