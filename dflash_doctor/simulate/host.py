"""A simulated serving host, whole: `with SimulatedHost("a6000-tuned") as host: ...`."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO

import paramiko

from dflash_doctor.simulate import scenario as scenarios
from dflash_doctor.simulate.background import BackgroundLoop
from dflash_doctor.simulate.engine import Engine
from dflash_doctor.simulate.logs import start_text
from dflash_doctor.simulate.root import Root
from dflash_doctor.simulate.scenario import Scenario
from dflash_doctor.simulate.ssh import Seen, SshServer


class Keys:
    """A host key and a client key, made for the occasion; hosts may share a pair."""

    def __init__(self) -> None:
        self.host = paramiko.ECDSAKey.generate()
        self.client = paramiko.ECDSAKey.generate()


class SimulatedHost:
    """SSH server, engine and made-up root of one scenario, on loopback, until the `with` block ends.

    `name` is the host's own, the scenario's when absent. `boot` is the number of the server start: another one is as
    fast on the average, within `boot_noise`. Many hosts may share a `loop` and `keys`.
    """

    def __init__(
        self,
        scenario: str | Path | Scenario,
        *,
        name: str | None = None,
        boot: int = 0,
        loop: BackgroundLoop | None = None,
        keys: Keys | None = None,
    ) -> None:
        self.scenario = scenario if isinstance(scenario, Scenario) else scenarios.load(scenario)
        if name is not None:
            machine = self.scenario.machine.model_copy(update={"hostname": name})
            self.scenario = self.scenario.model_copy(update={"machine": machine})
        self.target = self.scenario.machine.hostname
        self.boot = boot
        self._loop = loop
        self._keys = keys
        self._stack = ExitStack()

    def __enter__(self) -> SimulatedHost:
        with self._stack as stack:  # undone in reverse when anything on the way fails
            self.folder = Path(tempfile.mkdtemp(prefix=f"dflash-doctor-{self.target}-"))
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            loop = self._loop or stack.enter_context(BackgroundLoop())
            keys = self._keys or Keys()
            self._log: IO[str] | None = None
            self.engine = loop.call(lambda: Engine(self.scenario, self._say, self.boot, self._busy))
            stack.callback(lambda: loop.run(self.engine.stop()))
            # a server that fails had a port in its launch line, but nobody listens there
            self.port = loop.run(self.engine.start())
            self.root = Root(self.folder, self.scenario, self.port, self.engine.started_at)
            self.root.lay_out()
            # line by line on disk, as an engine's log is
            self._log = stack.enter_context(self.root.log_file.open("a", encoding="utf-8", buffering=1))
            self._say(start_text(self.scenario, self.engine.started_at, self.port))
            if self.scenario.fails:
                loop.run(self.engine.stop())
            else:
                loop.call(self.engine.serve)
            self._server = SshServer(keys.host, keys.client, self.root.environ, str(self.root.root / "root"))
            if not self.scenario.fails:
                self._server.forward_to = self.port
            stack.callback(self._server.close)
            stack.callback(lambda: loop.call(lambda: self._server.close_port(asyncio.get_running_loop())))
            self.ssh_port = loop.call(lambda: self._server.start(asyncio.get_running_loop()))
            self.ssh_config = self.folder / "ssh_config"
            self._write_client_files(keys)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._stack.close()

    # -- what a test or a demo asks -----------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The engine's address, for targets without SSH."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def seen(self) -> Seen:
        """What SSH clients did: connections, session channels, forwards, commands."""
        return self._server.seen

    @property
    def log_text(self) -> str:
        """The engine's log so far."""
        return self.root.log_file.read_text(encoding="utf-8")

    @property
    def ssh_block(self) -> str:
        """This host's block of an ssh client configuration."""
        return (
            f"Host {self.target}\n  HostName 127.0.0.1\n  Port {self.ssh_port}\n  User root\n"
            f"  IdentityFile {self.folder / 'id_ecdsa'}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder / 'known_hosts'}\n  StrictHostKeyChecking yes\n"
        )

    # -- inside -------------------------------------------------------------------------------------------------------

    def _write_client_files(self, keys: Keys) -> None:
        key = self.folder / "id_ecdsa"
        keys.client.write_private_key_file(str(key))
        key.chmod(0o600)
        line = f"[127.0.0.1]:{self.ssh_port} {keys.host.get_name()} {keys.host.get_base64()}\n"
        (self.folder / "known_hosts").write_text(line, encoding="utf-8")
        write_ssh_config([self], self.ssh_config)

    def _say(self, text: str) -> None:
        if self._log is not None:
            with contextlib.suppress(ValueError):  # a last line after the file was closed
                self._log.write(text)

    def _busy(self, on: bool) -> None:
        with contextlib.suppress(OSError):
            self.root.busy(on)


def write_ssh_config(hosts: Iterable[SimulatedHost], path: Path) -> Path:
    """One ssh client configuration for all these hosts."""
    path.write_text("\n".join(host.ssh_block for host in hosts), encoding="utf-8")
    return path
