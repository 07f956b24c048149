"""One SSH connection to one host: one session channel for the collector, forwarded ones for the load, counted apart."""

from __future__ import annotations

import contextlib
import logging
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import paramiko

from dflash_doctor.collect import keys, known_hosts
from dflash_doctor.model import Host, Refused

LOG = "dflash_doctor.ssh"
KEEPALIVE_S = 15
RSA = ("rsa-sha2-512", "rsa-sha2-256")  # how a known ssh-rsa key is proven today

# paramiko would print tracebacks of its own threads
logging.getLogger(LOG).addHandler(logging.NullHandler())
logging.getLogger(LOG).propagate = False


class Connection:
    """An open connection. `session_channels` and `forwarded_channels` count what was opened on it."""

    def __init__(self, host: Host, transport: paramiko.Transport, below: Sequence[paramiko.Transport | _Proxy]) -> None:
        self.host = host
        self.transport = transport
        self.session_channels = 0
        self.forwarded_channels = 0
        self._below = list(below)
        self._forwards: list[Forward] = []

    @property
    def direct(self) -> bool:
        """Whether the host was reached without anybody in between."""
        return not self._below

    def run(self, command: str, timeout: float) -> paramiko.Channel:
        """Start one command on a session channel of its own."""
        try:
            channel = self.transport.open_session(timeout=timeout)
            self.session_channels += 1
            channel.exec_command(command)
        except (paramiko.SSHException, OSError, EOFError) as e:
            raise Refused(f"{where(self.host)} took the key but starts no command: {e}") from e
        return channel

    def open(self, address: str, port: int, timeout: float = 10.0) -> paramiko.Channel:
        """One channel to a port as the host sees it; raises paramiko.SSHException with the host's reason."""
        channel = self.transport.open_channel("direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=timeout)
        self.forwarded_channels += 1
        return channel

    def forward(self, address: str, port: int) -> Forward:
        """A local port that leads to one of the host; closed with the connection.

        Raises paramiko.SSHException when the host refuses: one channel is tried at once.
        """
        self.open(address, port).close()
        forward = Forward(self, address, port)
        self._forwards.append(forward)
        return forward

    def close(self) -> None:
        """End everything that runs over it."""
        for forward in self._forwards:
            forward.close()
        self.transport.close()
        for link in reversed(self._below):
            link.close()


class Forward:
    """Listens on loopback and carries every connection to `address:port` of the host over the SSH connection."""

    def __init__(self, connection: Connection, address: str, port: int) -> None:
        self._connection, self._goal = connection, (address, port)
        self._sock = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address: tuple[str, int] = self._sock.getsockname()[:2]
        self._thread = threading.Thread(target=self._accept, name="ssh forward", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more connections; those that run end with the transport."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._sock.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), name="ssh forward", daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = self._connection.open(*self._goal)
        except (paramiko.SSHException, OSError, EOFError):
            client.close()  # whoever called sees a closed connection, as from a host that refuses
            return
        up = threading.Thread(target=_pump, args=(client.recv, channel.sendall, channel.close), daemon=True)
        up.start()
        _pump(channel.recv, client.sendall, lambda: client.shutdown(socket.SHUT_RDWR))
        up.join()
        client.close()


def _pump(take: Callable[[int], bytes], give: Callable[[bytes], None], end: Callable[[], None]) -> None:
    with contextlib.suppress(OSError, EOFError):
        while data := take(65536):
            give(data)
    with contextlib.suppress(OSError, EOFError):
        end()


# -- connecting -------------------------------------------------------------------------------------------------------


def where(host: Host) -> str:
    """`me@gpu7:2222`, as people write it."""
    name = host.address if host.port in (None, 22) else f"{host.address}:{host.port}"
    return f"{host.user}@{name}" if host.user else name


def connect(host: Host, *, accept_new: bool = False, timeout: float = 10.0) -> Connection:
    """Connect, check the host's key, log in. Raises Refused with a sentence that says what to do."""
    below: list[paramiko.Transport | _Proxy] = []
    try:
        for hop in host.options.get("jumps") or ():
            below.append(_transport(hop, _socket(hop, below, timeout), accept_new, timeout))
        transport = _transport(host, _socket(host, below, timeout), accept_new, timeout)
    except BaseException as e:
        said = below[-1].words() if below and isinstance(below[-1], _Proxy) else ""
        for link in reversed(below):
            link.close()
        if said and isinstance(e, Refused):
            raise Refused(f"{e}; its ProxyCommand said: {said}") from e
        raise
    transport.set_keepalive(KEEPALIVE_S)
    return Connection(host, transport, below)


def _socket(host: Host, below: list[paramiko.Transport | _Proxy], timeout: float) -> socket.socket | paramiko.Channel:
    """Something to speak SSH over: TCP, a channel of the jump host before, or a ProxyCommand."""
    port = host.port or 22
    if below and isinstance(below[-1], paramiko.Transport):
        try:
            return below[-1].open_channel("direct-tcpip", (host.address, port), ("127.0.0.1", 0), timeout=timeout)
        except (paramiko.SSHException, OSError, EOFError) as e:
            raise Refused(f"the jump host does not reach {host.address} port {port}: {e}") from e
    if command := host.options.get("proxycommand"):
        proxy = _Proxy(str(command))
        below.append(proxy)
        return proxy.sock
    try:
        return socket.create_connection((host.address, port), timeout=timeout)
    except socket.gaierror as e:
        raise Refused(f"unknown host {host.address}: {e.strerror or e}") from e
    except ConnectionRefusedError as e:
        raise Refused(f"nothing listens on {host.address} port {port} (connection refused): is sshd there?") from e
    except TimeoutError as e:
        raise Refused(f"no answer from {host.address} port {port} within {timeout:g} s") from e
    except OSError as e:
        raise Refused(f"cannot reach {host.address} port {port}: {e.strerror or e}") from e


class _Proxy:
    """A ProxyCommand with its two pipes as one socket."""

    def __init__(self, command: str) -> None:
        self.command = command
        self.sock, theirs = socket.socketpair()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the command
        with theirs:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"], stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=self._said,
                start_new_session=True,  # Ctrl-C is ours to handle
            )  # fmt: skip

    def words(self) -> str:
        """What the command complained of."""
        self._said.seek(0)
        return self._said.read(2000).decode("utf-8", "replace").strip()

    def close(self) -> None:
        self.sock.close()
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            self._process.terminate()
            self._process.wait(2)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._said.close()


def _transport(
    host: Host, sock: socket.socket | paramiko.Channel, accept_new: bool, timeout: float
) -> paramiko.Transport:
    """Speak SSH on a connected socket: handshake, host key, login."""
    entries = known_hosts.read(_known_hosts_files(host))
    name = _known_as(host)
    transport: paramiko.Transport | None = None
    try:
        transport = paramiko.Transport(sock)
        transport.set_log_channel(LOG)
        transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = timeout
        _prefer(transport, known_hosts.kinds(entries, name))
        transport.start_client(timeout=timeout)
        if not transport.initial_kex_done:  # paramiko returns as if all was well when the time is up
            raise paramiko.SSHException(f"no SSH banner or keys within {timeout:g} s")
        _check_key(host, name, transport.get_remote_server_key(), entries, accept_new)
        keys.log_in(host, transport, where(host))
    except (paramiko.SSHException, EOFError, OSError) as e:
        if transport is not None:
            transport.close()
        what = str(e) or type(e).__name__
        if "banner" in what:
            raise Refused(f"{host.address} port {host.port or 22} does not speak SSH: {what}") from e
        raise Refused(f"ssh to {where(host)} failed: {what}") from e
    except BaseException:
        if transport is not None:
            transport.close()
        raise
    return transport


def _prefer(transport: paramiko.Transport, kinds: list[str]) -> None:
    """Ask first for the key types that are known, or a host with several would look unknown."""
    options = transport.get_security_options()
    wanted = [algorithm for kind in kinds for algorithm in (RSA if kind == "ssh-rsa" else (kind,))]
    have = list(options.key_types)
    options.key_types = tuple(dict.fromkeys([k for k in wanted if k in have] + have))


def _known_as(host: Host) -> str:
    if alias := host.options.get("hostkeyalias"):
        return str(alias)
    return known_hosts.lookup_name(host.address, host.port or 22)


def _known_hosts_files(host: Host) -> list[Path]:
    """The user's files first: the first of them is where a new key is written."""
    users = str(host.options.get("userknownhostsfile") or "~/.ssh/known_hosts ~/.ssh/known_hosts2")
    everyones = str(host.options.get("globalknownhostsfile") or "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2")
    files = [p for p in f"{users} {everyones}".split() if p != "none"]
    return [Path(p.strip('"').replace("%d", str(Path.home()))).expanduser() for p in files]


def _check_key(host: Host, name: str, key: paramiko.PKey, entries: list[known_hosts.Entry], accept_new: bool) -> None:
    verdict, entry = known_hosts.judge(entries, name, key.get_name(), key.get_base64())
    shown = f"{key.get_name()} {known_hosts.fingerprint(key.asbytes())}"
    if verdict == "known":
        return
    if verdict == "revoked" and entry is not None:
        raise Refused(f"the key of {host.address} is revoked by {entry.path} line {entry.line}: {shown}")
    if verdict == "changed" and entry is not None:
        was = known_hosts.fingerprint_of(entry)
        raise Refused(
            f"THE HOST KEY OF {host.address} HAS CHANGED: it shows {shown}, {entry.path} line {entry.line} has {was}. "
            "Somebody may stand in between, or the machine was set up anew. If you know that it was: "
            f"ssh-keygen -f {entry.path} -R '{name}'"
        )
    files = _known_hosts_files(host)
    if accept_new or str(host.options.get("stricthostkeychecking", "")).lower() in ("no", "off", "accept-new"):
        known_hosts.write(files[0], name, key, str(host.options.get("hashknownhosts", "no")).lower() == "yes")
        return
    port = "" if host.port in (None, 22) else f"-p {host.port} "
    kind = key.get_name().removeprefix("ssh-").removeprefix("ecdsa-sha2-").replace("nistp", "ecdsa-nistp").split("-")[0]
    raise Refused(
        f"the host key of {host.address} is not known: {shown}. Compare it on the host with `ssh-keygen -lf "
        f"/etc/ssh/ssh_host_{kind}_key.pub`; accept it with --accept-new-host-key, or by `ssh-keyscan -t {kind} {port}"
        f"{host.address} >> {files[0]}`"
    )
