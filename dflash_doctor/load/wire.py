"""The load's own HTTP/1.1 connections, as a transport of httpx: a read costs a recv and a stamp, all else comes later.

httpx asks for each piece through four layers and a task switch, 0.1 to 0.6 ms of a core: at a few thousand pieces a
second the client is what is measured. Here the event loop reads into one buffer and notes the time; chunks and events
are told apart when the answer is whole. The rest of a request (URLs, headers, TLS) is httpx's and h11's as ever.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from typing import cast

import h11
import httpx

from dflash_doctor.load import hotloop
from dflash_doctor.load.framing import Chunked, Framing, Sized, UntilClosed, Wrapping
from dflash_doctor.load.sse import Stamped

END = b"\r\n0\r\n\r\n"  # of a chunked body; no event of an engine has a line with a lone 0
MOST_HEAD = 1 << 16
LAST = b"\r\n\r\n"  # what END ends in, and trailers; inside a body only events that end in CR LF
Origin = tuple[bytes, str, int]  # scheme, host, port


class Wire(asyncio.BufferedProtocol):
    """One connection. `pieces` is what came since somebody looked, each with the loop's time at its read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.pieces: list[Stamped] = []
        self.closed = False
        self.broken: Exception | None = None
        self.size = 0  # bytes that came for this answer
        self.enough = 0  # from so many on whoever waits is woken
        self._loop = loop
        self._room: memoryview | None = None
        self._quiet = False  # nothing but the end is waited for
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._fd = -1
        self._sent = asyncio.Event()

    # -- called by the loop ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)
        self._sent.set()
        if transport.get_extra_info("ssl_object") is None:
            self._loop.call_soon(self._watch)  # once asyncio has begun to read

    def get_buffer(self, sizehint: int) -> memoryview:
        self._room = self._room or memoryview(bytearray(hotloop.ROOM))
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self._take(self._loop.time(), bytes(self.get_buffer(nbytes)[:nbytes]))

    def _take(self, at: float, raw: bytes) -> bool:
        if not raw:
            self._unwatch()
            return True
        self.pieces.append((at, raw))
        self.size += len(raw)
        # the end of a body may be cut anywhere: its last part is then short
        if self._quiet and raw[-4:] != LAST and len(raw) >= len(LAST) and self.size < self.enough:
            return False
        return self._wake()

    def eof_received(self) -> None:
        self.closed = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        self.closed, self.broken = True, exc
        self._sent.set()
        self._wake()

    def pause_writing(self) -> None:
        self._sent.clear()

    def resume_writing(self) -> None:
        self._sent.set()

    def _wake(self) -> bool:
        if self._waiter is None or self._waiter.done():
            return False
        self._waiter.set_result(None)
        return True

    def _watch(self) -> None:
        if sys.platform == "linux" and isinstance(self._loop, hotloop.HotLoop) and self._transport and not self.closed:
            self._transport.pause_reading()
            self._fd = self._transport.get_extra_info("socket").fileno()
            self._loop.watch(self._fd, self._take)

    def _unwatch(self) -> None:
        if sys.platform == "linux" and isinstance(self._loop, hotloop.HotLoop) and self._fd >= 0:
            self._loop.unwatch(self._fd)
            self._fd = -1
            if self._transport and not self._transport.is_closing():
                self._transport.resume_reading()

    # -- called by whoever asks -----------------------------------------------------------------------------------

    async def send(self, data: bytes) -> float:
        """When the last byte was handed to the network: what the network takes at once counts from before."""
        assert self._transport is not None
        self.size = 0
        sent = self._loop.time()
        self._transport.write(data)
        if self._sent.is_set():
            return sent
        await self._sent.wait()
        return self._loop.time()

    async def more(self, quiet: bool = False, enough: int = 0) -> list[Stamped]:
        """What came since the last time, at least one piece; with `quiet`, when the answer may be whole, or has
        `enough` bytes. Nothing once the connection is at its end. Raises httpx.ReadError when it broke."""
        if not self.pieces and not self.closed:
            self._quiet, self.enough = quiet, enough
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        came, self.pieces = self.pieces, []
        if not came and self.broken is not None:
            raise httpx.ReadError(_said(self.broken))
        return came

    def close(self) -> None:
        """End the connection now, which ends a request on the server."""
        self.closed = True
        self._unwatch()  # its number may soon be another's
        if self._transport is not None:
            self._transport.abort()


class Body(httpx.AsyncByteStream):
    """The body of one answer."""

    def __init__(self, wire: Wire, framing: Framing, begun: list[Stamped], keep: Callable[[], None] | None) -> None:
        self._wire, self._framing, self._begun, self._keep = wire, framing, begun, keep
        self._whole = framing.ended

    async def stamped(self, most: int) -> list[Stamped]:
        """The whole of it as it came, in its framing, each piece with the time of its read; the beginning when it is
        longer than `most` bytes. Raises httpx.ReadError and httpx.RemoteProtocolError."""
        pieces = came = self._begun
        looked = 0  # pieces that the framing has seen
        while not self._whole and self._wire.size < most:
            if isinstance(self._framing, Chunked) and b"".join(raw for _, raw in pieces[-len(END) :]).endswith(END):
                self._whole = True
                break
            # rarely all else: an end with trailers, events that look like one
            if not isinstance(self._framing, Chunked) or (came and came[-1][1].endswith(LAST)):
                self._understood(pieces[looked:])
                looked = len(pieces)
            if self._whole:
                break
            came = await self._wire.more(quiet=not isinstance(self._framing, Sized), enough=most)
            if not came:
                self._cut()
                break
            pieces += came
        return pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        came = self._begun
        while True:
            for part in self._understood(came):
                yield part
            if self._whole:
                return
            came = await self._wire.more()
            if not came:
                self._cut()
                return

    async def aclose(self) -> None:
        if self._whole and self._keep is not None and not self._wire.closed:
            self._keep()
        else:
            self._wire.close()

    @property
    def framing(self) -> Wrapping:
        """What `stamped` pieces are wrapped in."""
        return Chunked if isinstance(self._framing, Chunked) else UntilClosed

    def _understood(self, came: list[Stamped]) -> list[bytes]:
        try:
            found = [part for _, raw in came if (part := self._framing.feed(raw))]
        except ValueError as e:
            raise httpx.RemoteProtocolError(str(e)) from e
        self._whole = self._framing.ended
        return found

    def _cut(self) -> None:
        if not isinstance(self._framing, UntilClosed):
            raise httpx.RemoteProtocolError("peer closed connection before the answer was whole")


class Transport(httpx.AsyncBaseTransport):
    """Answers carry two extensions more: `sent`, the loop's time at which the request was out, and `body`."""

    def __init__(self) -> None:
        self._idle: dict[Origin, list[Wire]] = {}
        self._tls: ssl.SSLContext | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send it on a connection that is at rest, or on a new one. Raises the errors of httpx."""
        url, grammar = request.url, h11.Connection(h11.CLIENT)
        origin = (url.raw_scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
        data = b"".join([part async for part in cast(httpx.AsyncByteStream, request.stream)])
        try:
            asked = grammar.send(h11.Request(method=request.method, target=url.raw_path, headers=request.headers.raw))
            asked = (asked or b"") + (grammar.send(h11.Data(data)) or b"") + (grammar.send(h11.EndOfMessage()) or b"")
        except h11.LocalProtocolError as e:
            raise httpx.LocalProtocolError(str(e)) from e
        wire = self._at_rest(origin) or await self._connected(origin, request.extensions.get("timeout", {}))
        try:
            sent = await wire.send(asked)
            head, begun = await _head(wire, grammar)
        except BaseException:
            wire.close()
            raise
        framing = _framing(request.method, head)
        keep = None
        if not isinstance(framing, UntilClosed) and _kept(head):
            keep = lambda: self._idle.setdefault(origin, []).append(wire)  # noqa: E731
        body = Body(wire, framing, begun, keep)
        return httpx.Response(
            head.status_code, headers=list(head.headers), stream=body, extensions={"sent": sent, "body": body}
        )

    async def aclose(self) -> None:
        for wires in self._idle.values():
            for wire in wires:
                wire.close()
        self._idle.clear()

    def _at_rest(self, origin: Origin) -> Wire | None:
        wires = self._idle.get(origin, [])
        while wires:
            wire = wires.pop()
            if not wire.closed and not wire.pieces:
                return wire
            wire.close()
        return None

    async def _connected(self, origin: Origin, timeout: dict[str, float | None]) -> Wire:
        scheme, host, port = origin
        loop = asyncio.get_running_loop()
        tls = self._context() if scheme == b"https" else None
        try:
            opening = loop.create_connection(lambda: Wire(loop), host, port, ssl=tls)
            _, wire = await asyncio.wait_for(opening, timeout.get("connect"))
        except asyncio.TimeoutError as e:
            raise httpx.ConnectTimeout(f"no connection to {host}:{port} in time") from e
        except OSError as e:
            raise httpx.ConnectError(_said(e)) from e
        return wire

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = httpx.create_ssl_context(trust_env=False)
        return self._tls


async def _head(wire: Wire, grammar: h11.Connection) -> tuple[h11.Response, list[Stamped]]:
    """The head of an answer, and what came behind it."""
    data, at = b"", 0.0
    while True:
        end = data.find(LAST) + len(LAST)
        if end >= len(LAST):
            try:
                grammar.receive_data(data[:end])
                head = grammar.next_event()
            except h11.RemoteProtocolError as e:
                raise httpx.RemoteProtocolError(str(e)) from e
            data = data[end:]
            if isinstance(head, h11.Response):
                return head, [(at, data)] if data else []
            continue  # 100 Continue, 103 Early Hints
        if len(data) > MOST_HEAD:
            raise httpx.RemoteProtocolError("the answer has no end of its head")
        came = await wire.more()
        if not came:
            raise httpx.RemoteProtocolError("the server closed the connection without an answer")
        at = came[-1][0]
        data += b"".join(raw for _, raw in came)


def _framing(method: str, head: h11.Response) -> Framing:
    fields = dict(head.headers)  # h11 gives names in lower case and refuses contradictory lengths
    if method == "HEAD" or head.status_code in (204, 304):
        return Sized(0)
    if b"chunked" in fields.get(b"transfer-encoding", b"").lower():
        return Chunked()
    length = fields.get(b"content-length")
    return UntilClosed() if length is None else Sized(int(length))


def _kept(head: h11.Response) -> bool:
    words = b",".join(value for name, value in head.headers if name == b"connection").lower()
    return head.http_version >= b"1.1" and b"close" not in words


def _said(e: Exception) -> str:
    """What went wrong, without the numbers that Python puts before it."""
    if isinstance(e, OSError) and not isinstance(e, ssl.SSLError):
        return os.strerror(e.errno) if e.errno is not None and e.errno > 0 else e.strerror or str(e)
    return str(e) or type(e).__name__
