"""The SSH side of a simulated host: a real server on loopback that runs commands against the made-up root.

paramiko's server interface; one thread per connection, two more per running command or forwarded port.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import selectors
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_FAILED_UNKNOWN_CHANNEL_TYPE,
    OPEN_SUCCEEDED,
)

LOG = "dflash_doctor.simulate.ssh"
GRACE_S = 3.0  # what a command may still need after its client has gone, as after a hang-up

logging.getLogger(LOG).addHandler(logging.NullHandler())
logging.getLogger(LOG).propagate = False


@dataclass
class Seen:
    """What clients did here, for tests that count."""

    connections: int = 0
    refused: int = 0  # keys
    sessions: int = 0  # session channels
    forwards: int = 0  # direct-tcpip channels
    commands: list[str] = field(default_factory=list)
    left_running: int = 0  # commands that had to be killed after their client went


class SshServer:
    """Accepts one key, runs commands in `environ`, forwards to the engine's port only."""

    def __init__(
        self, host_key: paramiko.PKey, client_key: paramiko.PKey, environ: Mapping[str, str], home: str
    ) -> None:
        self.host_key, self.client_key = host_key, client_key
        self.environ, self.home = dict(environ), home
        self.forward_to: int | None = None  # the engine's port, once it listens
        self.seen = Seen()
        self.port = 0
        self._sock: socket.socket | None = None
        self.grace_s = GRACE_S
        self._open: set[_Connection] = set()
        self._lock = threading.Lock()

    def start(self, loop: asyncio.AbstractEventLoop) -> int:
        """Listen on loopback; to be called on the loop's thread."""
        self._sock = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._sock.setblocking(False)
        self.port = int(self._sock.getsockname()[1])
        loop.add_reader(self._sock, self._accept)
        return self.port

    def close_port(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop listening; to be called on the loop's thread."""
        if self._sock is not None:
            loop.remove_reader(self._sock)
            self._sock.close()
            self._sock = None

    def close(self) -> None:
        """End every connection and every command; waits for them."""
        self.grace_s = 0.3
        with self._lock:
            still = list(self._open)
        for connection in still:
            connection.close()
        for connection in still:
            connection.join()

    def _accept(self) -> None:
        assert self._sock is not None
        try:
            client, _ = self._sock.accept()
        except (BlockingIOError, ConnectionError):
            return
        client.setblocking(True)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _Connection(self, client)
        with self._lock:
            # the ended ones are forgotten when the next comes
            self._open = {c for c in self._open if c.alive} | {connection}
            self.seen.connections += 1
        connection.start()

    def count(self, what: str) -> None:
        with self._lock:
            setattr(self.seen, what, getattr(self.seen, what) + 1)

    def ran(self, command: str) -> None:
        with self._lock:
            self.seen.commands.append(command)


class _Connection(paramiko.ServerInterface):
    """One client's connection."""

    def __init__(self, server: SshServer, client: socket.socket) -> None:
        self._server = server
        self._transport = paramiko.Transport(client)
        self._transport.set_log_channel(LOG)
        self._transport.add_server_key(server.host_key)
        self._threads: list[threading.Thread] = []
        self._running: list[subprocess.Popen[bytes]] = []
        self._forwarding: set[int] = set()
        self._taker: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        return self._transport.is_alive() or any(t.is_alive() for t in self._threads)

    def start(self) -> None:
        # with an event it returns at once; the handshake goes on in the transport's thread
        self._transport.start_server(event=threading.Event(), server=self)

    def close(self) -> None:
        self._transport.close()

    def join(self) -> None:
        for thread in [self._transport, *self._threads]:
            thread.join(GRACE_S + 2)

    # -- what paramiko asks -------------------------------------------------------------------------------------------

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        if key == self._server.client_key:
            return AUTH_SUCCESSFUL
        self._server.count("refused")
        return AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        if kind != "session":
            return OPEN_FAILED_UNKNOWN_CHANNEL_TYPE
        self._server.count("sessions")
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        text = command.decode("utf-8", "replace")
        self._server.ran(text)
        process = subprocess.Popen(
            ["/bin/sh", "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self._server.environ, cwd=self._server.home, start_new_session=True,
        )  # fmt: skip
        self._running.append(process)
        self._spawn(lambda: _feed(channel, process), "stdin")
        self._spawn(lambda: self._drain(channel, process), "stdout")
        return True

    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        host, port = destination
        if host not in ("127.0.0.1", "localhost", "::1") or port != self._server.forward_to:
            return OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        self._server.count("forwards")
        self._forwarding.add(chanid)
        if self._taker is None:
            self._taker = self._spawn(self._take_channels, "forwards")
        return OPEN_SUCCEEDED

    # -- threads ------------------------------------------------------------------------------------------------------

    def _spawn(self, work: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=work, name=f"simulated ssh {name}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _drain(self, channel: paramiko.Channel, process: subprocess.Popen[bytes]) -> None:
        """Carry what the command says to the client, then its exit status; after a hang-up see it off."""
        assert process.stdout is not None and process.stderr is not None
        gone = False
        with selectors.DefaultSelector() as both:
            both.register(process.stdout, selectors.EVENT_READ, channel.sendall)
            both.register(process.stderr, selectors.EVENT_READ, channel.sendall_stderr)
            while both.get_map() and not gone:
                for key, _ in both.select(timeout=0.2):
                    data = os.read(key.fd, 65536)
                    if not data:
                        both.unregister(key.fileobj)
                        continue
                    try:
                        key.data(data)
                    except OSError:
                        gone = True
                gone = gone or not self._transport.is_active() or channel.closed
        # a writer that goes on gets SIGPIPE, as under sshd
        process.stdout.close()
        process.stderr.close()
        try:
            status = process.wait(self._server.grace_s if gone else None)
        except subprocess.TimeoutExpired:
            self._server.count("left_running")
            _kill(process)
            status = process.wait()
        with contextlib.suppress(OSError, EOFError):
            channel.send_exit_status(status if status >= 0 else 128 - status)
            channel.close()

    def _take_channels(self) -> None:
        while self._transport.is_active():
            channel = self._transport.accept(0.5)
            if channel is None or channel.get_id() not in self._forwarding:
                continue
            try:
                peer = socket.create_connection(("127.0.0.1", self._server.forward_to or 0), timeout=5)
            except OSError:
                channel.close()
                continue
            peer.settimeout(None)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._spawn(lambda c=channel, p=peer: _to_client(c, p), "forward out")  # type: ignore[misc]
            self._spawn(lambda c=channel, p=peer: _to_engine(c, p), "forward in")  # type: ignore[misc]


def _feed(channel: paramiko.Channel, process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        while data := channel.recv(65536):
            process.stdin.write(data)
            process.stdin.flush()
    with contextlib.suppress(OSError):
        process.stdin.close()


def _to_client(channel: paramiko.Channel, peer: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := peer.recv(65536):
            channel.sendall(data)
    with contextlib.suppress(OSError, EOFError):
        channel.close()


def _to_engine(channel: paramiko.Channel, peer: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := channel.recv(65536):
            peer.sendall(data)
    # the engine then sees its client gone and drops the request
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_RDWR)
    peer.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
