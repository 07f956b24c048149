"""The load's own connections against servers that write what a script says, byte by byte, on loopback."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import httpx
import pytest

from dflash_doctor.load import hotloop
from dflash_doctor.load.client import Ask, send
from dflash_doctor.load.heard import understood
from dflash_doctor.load.wire import Transport

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
A = b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": null}]}\n\n'
B = b'data: {"choices": [{"delta": {"content": "b"}, "finish_reason": "length"}]}\n\n'
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}\n\ndata: [DONE]\n\n'


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


class Script:
    """Answers each request with the next of its answers: pieces to write, numbers to sleep."""

    def __init__(self, *answers):
        self.answers, self.connections, self.left = list(answers), 0, threading.Event()
        self._listen = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listen.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._listen.close()
        self._thread.join(5)

    def _serve(self):
        while self.answers:
            try:
                sock, _ = self._listen.accept()
            except OSError:
                return
            self.connections += 1
            with sock:
                self._talk(sock)

    def _talk(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while self.answers:
            if not asked(sock):
                return
            for piece in self.answers.pop(0):
                if piece is None:
                    return
                if isinstance(piece, float):
                    time.sleep(piece)
                elif isinstance(piece, bytes):
                    sock.sendall(piece)
        if not sock.recv(1):
            self.left.set()


def asked(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := sock.recv(1 << 16)):
            return False
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(f.split(b":")[1]) for f in head.lower().split(b"\r\n") if f.startswith(b"content-length")), 0)
    while len(body) < length:
        body += sock.recv(1 << 16)
    return True


def sent(server, many=1, loop=hotloop.run, end=None):
    """What so many requests after one another gave."""

    async def all_of_them():
        async with httpx.AsyncClient(base_url=server.url, transport=Transport(), timeout=5) as client:
            begun = [understood(await one(client), 0) for _ in range(many)]
            await asyncio.sleep(0.02 if end is None else end)
            return begun

    async def one(client):
        return await send(client, Ask("p", "hello", 2, "m"))

    return loop(all_of_them())


@pytest.mark.parametrize("loop", [hotloop.run, asyncio.run])
def test_pieces_are_stamped_as_they_come_whatever_reads_them(loop):
    with Script([CHUNKED, 0.05, chunk(A), 0.05, chunk(B) + chunk(USAGE) + b"0\r\n\r\n"]) as server:
        (r,) = sent(server, loop=loop)
    assert (r.status, r.output_tokens, r.chunks) == ("ok", 2, 2)
    assert r.ttft_ms >= 49 and r.tpot_ms >= 49 and r.e2e_ms >= 99


def test_a_connection_is_kept_for_the_next_request():
    whole = [CHUNKED, chunk(A) + chunk(B), chunk(USAGE), b"0\r\n\r\n"]
    with Script(whole, whole, whole) as server:
        assert [r.status for r in sent(server, 3)] == ["ok"] * 3
    assert server.connections == 1


@pytest.mark.parametrize(
    "ways",
    [
        [HEAD + b"content-length: %d\r\n\r\n" % len(A + B + USAGE), A, 0.01, B + USAGE],
        [HEAD + b"connection: close\r\n\r\n", A, 0.01, B, USAGE, None],
        [b"HTTP/1.1 100 Continue\r\n\r\n", CHUNKED + chunk(A), 0.01, chunk(B + USAGE) + b"0\r\nx-took: 1\r\n\r\n"],
        [CHUNKED + chunk(A)[:7], 0.01, chunk(A)[7:] + chunk(B + USAGE) + b"0\r", 0.01, b"\n\r", 0.01, b"\n"],
        [CHUNKED, *(chunk(e.replace(b"\n", b"\r\n")) for e in (A, B, USAGE)), 0.01, b"0\r\n\r\n"],
        [CHUNKED[:20], 0.01, CHUNKED[20:], *(bytes([b]) for b in chunk(A + B + USAGE) + b"0\r\n\r\n")],
    ],
    ids=["length", "close", "trailer", "cut", "crlf", "drip"],
)
def test_an_answer_may_end_in_any_way_of_http(ways):
    with Script(ways) as server:
        (r,) = sent(server)
    assert (r.status, r.error, r.output_tokens, r.chunks) == ("ok", None, 2, 2)


@pytest.mark.parametrize(
    ("ways", "why"),
    [
        ([CHUNKED, chunk(A), None], "the connection broke: peer closed connection before the answer was whole"),
        ([HEAD + b"content-length: 900\r\n\r\n", A, None],
         "the connection broke: peer closed connection before the answer was whole"),
        ([None], "the connection broke: the server closed the connection without an answer"),
        ([b"SSH-2.0-OpenSSH_9.6\r\n\r\n", None], "the connection broke: illegal status line"),
        ([CHUNKED, b"zz\r\n" + A + b"\r\n\r\n", None], "the connection broke: a chunk of the answer has the size"),
        ([b"HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\ndead"], "HTTP 500: dead"),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"], "the answer is no stream but no type: hi"),
    ],
    ids=["cut", "short", "nothing", "ssh", "no chunk", "500", "page"],
)  # fmt: skip
def test_what_goes_wrong_on_the_wire_has_a_name(ways, why):
    with Script(ways) as server:
        (r,) = sent(server)
    assert r.status == "failed" and r.error.startswith(why)


def test_a_server_that_closed_a_kept_connection_is_asked_on_a_new_one():
    whole = [CHUNKED, chunk(A + B + USAGE) + b"0\r\n\r\n"]

    async def twice(url):
        async with httpx.AsyncClient(base_url=url, transport=Transport(), timeout=5) as client:
            first = await send(client, Ask("p", "hello", 2, "m"))
            await asyncio.sleep(0.05)
            return first, await send(client, Ask("p", "hello", 2, "m"))

    with Script([*whole, None], whole) as server:
        assert [understood(h, 0).status for h in hotloop.run(twice(server.url))] == ["ok", "ok"]
    assert server.connections == 2


def test_a_request_that_is_given_up_ends_on_the_server_too():
    async def given_up(url):
        async with httpx.AsyncClient(base_url=url, transport=Transport(), timeout=5) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(send(client, Ask("p", "hello", 2, "m")), 0.1)
            await asyncio.sleep(0.05)

    with Script([CHUNKED, chunk(A)]) as server:
        hotloop.run(given_up(server.url))
        assert server.left.wait(2)


def test_nobody_there_is_a_connect_error():
    async def ask(url):
        async with httpx.AsyncClient(base_url=url, transport=Transport(), timeout=2) as client:
            with pytest.raises(httpx.ConnectError, match="Connection refused"):
                await client.get("/v1/models")
            with pytest.raises(httpx.ConnectError, match=r"(?i)name|address|temporary failure"):
                await client.get("http://no-such-host.invalid/v1/models")

    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    hotloop.run(ask(f"http://127.0.0.1:{port}"))
