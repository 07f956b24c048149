"""A server on loopback that streams on an exact schedule and keeps what it really did, for holding a client against.

    python tests/integration/clockwork.py --port 8099 --ttft-ms 20 --itl-ms 5      # /truth tells, /reset forgets

A process of its own: what the client does delays nothing here.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import selectors
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass
class Told:
    """One answer as it was really sent."""

    began: float
    tokens: int
    sent: list[float] = field(default_factory=list)  # of each chunk

    @property
    def ttft_ms(self):
        return 1000 * (self.sent[0] - self.began)

    @property
    def tpot_ms(self):
        return 1000 * (self.sent[-1] - self.sent[0]) / (self.tokens - 1)

    @property
    def step_ms(self):
        return 1000 * (self.sent[-1] - self.sent[0]) / (len(self.sent) - 1)


class Clockwork:
    """A running server: first chunk after `ttft_s`, then one every `step_s`, each of `per_step` tokens."""

    def __init__(self, ttft_s, step_s, per_step=1):
        self._timing = [1000 * ttft_s, 1000 * step_s, per_step]

    def __enter__(self):
        words = [x for pair in zip(OPTIONS, map(str, self._timing), strict=True) for x in pair]
        self._child = subprocess.Popen([sys.executable, __file__, "--port", "0", *words], stdout=subprocess.PIPE)
        self.url = self._child.stdout.readline().decode().strip()
        return self

    def __exit__(self, *_):
        self._last = self._said()
        self._child.kill()
        self._child.wait()
        self._child.stdout.close()

    @property
    def truth(self):
        """Answers that were given to their end."""
        return [Told(t["began"], t["tokens"], t["sent"]) for t in self._said()["requests"]]

    @property
    def gone(self):
        """Clients that left before their end."""
        return self._said()["gone"]

    @property
    def open_streams(self):
        """Answers that have not ended."""
        return self._said()["open"]

    def _said(self):
        if self._child.returncode is not None:
            return self._last
        with urllib.request.urlopen(f"{self.url}/truth") as answer:
            return json.load(answer)


OPTIONS = ("--ttft-ms", "--itl-ms", "--tokens-per-chunk")


class Server:
    """The server itself."""

    def __init__(self, ttft_s, step_s, per_step, port):
        self.ttft_s, self.step_s, self.per_step = ttft_s, step_s, per_step
        self.truth = []
        self.gone = 0  # clients that left before their end
        self._due, self._tie = [], itertools.count()
        self._listen = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.url = f"http://127.0.0.1:{self._listen.getsockname()[1]}"
        self._select = selectors.DefaultSelector()
        self._select.register(self._listen, selectors.EVENT_READ)
        self._heard = {}
        self._streams = {}  # by connection, until the last chunk

    def serve(self):
        """For ever."""
        while True:
            wait = min(0.02, self._due[0][0] - time.monotonic()) if self._due else 0.02
            # a selector wakes late by up to a millisecond: the last of it is spun
            for key, _ in self._select.select(max(0.0, wait - 0.0012)):
                self._accept() if key.fileobj is self._listen else self._read(key.fileobj)
            while self._due and self._due[0][0] <= time.monotonic():
                when, _, sock, told = heapq.heappop(self._due)
                self._step(when, sock, told)

    def _accept(self):
        sock, _ = self._listen.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._heard[sock] = b""
        self._select.register(sock, selectors.EVENT_READ)

    def _read(self, sock):
        try:
            data = sock.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._drop(sock)
            return
        self._heard[sock] += data
        head, end, body = self._heard[sock].partition(b"\r\n\r\n")
        fields = head.lower().split(b"\r\n")
        length = next((int(f.split(b":")[1]) for f in fields if f.startswith(b"content-length")), 0)
        if end and len(body) >= length:
            self._heard[sock] = b""
            self._answer(sock, head.split(b" ")[1], body)

    def _answer(self, sock, path, body):
        if path == b"/v1/models":
            self._page(sock, b'{"data": [{"id": "clock"}]}')
        elif path == b"/truth":
            told = [{**vars(t), "ttft_ms": t.ttft_ms, "tpot_ms": t.tpot_ms} for t in self.truth]
            said = {"requests": told, "gone": self.gone, "open": len(self._streams)}
            self._page(sock, json.dumps(said).encode())
        elif path == b"/reset":
            self.truth.clear()
            self._page(sock, b"{}")
        elif path == b"/v1/chat/completions":
            told = Told(time.monotonic(), json.loads(body)["max_tokens"])
            self._streams[sock] = told
            sock.sendall(HEAD)
            heapq.heappush(self._due, (told.began + self.ttft_s, next(self._tie), sock, told))
        else:
            sock.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

    def _page(self, sock, text):
        sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text))

    def _step(self, when, sock, told):
        if self._streams.get(sock) is not told:  # its client has left
            return
        given = len(told.sent) * self.per_step
        n = min(self.per_step, told.tokens - given)
        last = given + n == told.tokens
        choice = {"index": 0, "delta": {"content": " tok" * n}, "finish_reason": "length" if last else None}
        text = b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"
        if last:
            usage = {"prompt_tokens": 8, "completion_tokens": told.tokens}
            text += b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n"
        told.sent.append(time.monotonic())
        try:
            sock.sendall(b"%x\r\n%s\r\n" % (len(text), text) + (b"0\r\n\r\n" if last else b""))
        except OSError:
            self._drop(sock)
            return
        if last:
            del self._streams[sock]
            self.truth.append(told)
        else:
            heapq.heappush(self._due, (when + self.step_s, next(self._tie), sock, told))

    def _drop(self, sock):
        self.gone += self._streams.pop(sock, None) is not None
        self._select.unregister(sock)
        del self._heard[sock]
        sock.close()


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--port", type=int, required=True)
    p.add_argument("--ttft-ms", type=float, default=20.0)
    p.add_argument("--itl-ms", type=float, default=5.0)
    p.add_argument("--tokens-per-chunk", type=int, default=1)
    how = p.parse_args()
    server = Server(how.ttft_ms / 1000, how.itl_ms / 1000, how.tokens_per_chunk, how.port)
    print(server.url, flush=True)
    server.serve()
