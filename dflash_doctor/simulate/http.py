"""Just enough of an HTTP/1.1 server for an engine's API: requests with a length, replies whole or chunked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

MAX_HEAD, MAX_BODY = 64 << 10, 64 << 20

Answer = Callable[["Exchange"], None]


class Exchange:
    """One request and its reply."""

    def __init__(self, protocol: HttpProtocol, method: str, path: str, body: bytes, received: float) -> None:
        self.method, self.path, self.body = method, path, body
        self.received = received  # event-loop clock, when the last byte was there
        self.on_gone: Callable[[], None] | None = None  # called when the client leaves before the end
        self._protocol = protocol

    @property
    def client_port(self) -> int:
        return self._protocol.client_port

    def reply(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nserver: uvicorn\r\n"
            f"content-length: {len(body)}\r\ncontent-type: {content_type}\r\n\r\n"
        )
        self._protocol.send(head.encode("latin-1") + body)
        self._protocol.finished()

    def open_stream(self) -> None:
        """Send the head of a chunked reply."""
        self._protocol.send(
            b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )

    def stream(self, payload: bytes, last: bool) -> None:
        self._protocol.send(b"%x\r\n%b\r\n" % (len(payload), payload) + (b"0\r\n\r\n" if last else b""))
        if last:
            self._protocol.finished()


class HttpProtocol(asyncio.Protocol):
    """One connection: requests are answered in order, the next begins when the last reply has ended."""

    def __init__(self, answer: Answer, open_ones: set[HttpProtocol]) -> None:
        self._answer = answer
        self._open = open_ones
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._current: Exchange | None = None
        self._close_after = False
        self.client_port = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.client_port = transport.get_extra_info("peername")[1]
        self._open.add(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._open.discard(self)
        if self._current is not None and self._current.on_gone is not None:
            self._current.on_gone()
        self._current = None

    def send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def finished(self) -> None:
        self._current = None
        if self._close_after:
            self.close()
        elif self._buffer:
            asyncio.get_running_loop().call_soon(self._next)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _next(self) -> None:
        if self._current is not None or self._transport is None:
            return
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD:
                self._refuse(b"431 Request Header Fields Too Large")
            return
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        words = lines[0].split(" ")
        length = headers.get("content-length", "0")
        if len(words) != 3 or not length.isdigit() or int(length) > MAX_BODY:
            self._refuse(b"400 Bad Request")
            return
        if "chunked" in headers.get("transfer-encoding", ""):
            self._refuse(b"411 Length Required")
            return
        body_at = end + 4
        if len(self._buffer) < body_at + int(length):
            if headers.get("expect", "").lower() == "100-continue" and len(self._buffer) == body_at:
                self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            return
        body = self._buffer[body_at : body_at + int(length)]
        self._buffer = self._buffer[body_at + int(length) :]
        self._close_after = headers.get("connection", "").lower() == "close" or words[2] == "HTTP/1.0"
        received = asyncio.get_running_loop().time()
        self._current = Exchange(self, words[0], words[1].split("?")[0], body, received)
        self._answer(self._current)

    def _refuse(self, status: bytes) -> None:
        self.send(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        self.close()
