"""One streaming request: send, stamp every piece that comes, understand it afterwards.

What the pieces say is read when the round is over (heard.py): reading it meanwhile would delay the stamps of others.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import httpx

from dflash_doctor.load.framing import UntilClosed, Wrapping, unwrapped
from dflash_doctor.load.heard import Heard
from dflash_doctor.load.sse import Stamped
from dflash_doctor.load.wire import Body

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
GENERATE = "/generate"  # SGLang's own
MESSAGES = "/v1/messages"  # Anthropic's, which both engines serve; they leave out ignore_eos
APIS = (CHAT, COMPLETIONS, GENERATE, MESSAGES)
# a compressed stream comes in blocks of the compressor, not as tokens are made
HEADERS = {"accept": "text/event-stream", "accept-encoding": "identity"}
MOST_BYTES = 32 << 20  # of one answer: 256 tokens with their wrapping need 0.1 MB
SHOWN = 300  # characters of an answer that is no stream


@dataclass(frozen=True)
class Ask:
    """What is sent."""

    prompt: str  # id
    text: str
    max_tokens: int
    model: str
    api: str = CHAT
    before: tuple[tuple[str, str], ...] = ()  # earlier turns: role and text
    ignore_eos: bool = True  # answers of equal length; both engines know it

    def body(self) -> dict[str, Any]:
        """The JSON body of the request."""
        whole = "\n\n".join((*(text for _, text in self.before), self.text))
        if self.api == GENERATE:
            params: dict[str, Any] = {"temperature": 0, "max_new_tokens": self.max_tokens}
            if self.ignore_eos:
                params["ignore_eos"] = True
            return {"text": whole, "sampling_params": params, "stream": True}
        body: dict[str, Any] = {
            "model": self.model, "max_tokens": self.max_tokens, "temperature": 0, "stream": True,
        }  # fmt: skip
        turns = (*self.before, ("user", self.text))
        chat = {"messages": [{"role": role, "content": text} for role, text in turns]}
        if self.api == MESSAGES:
            return body | chat
        body["stream_options"] = {"include_usage": True}
        if self.ignore_eos:
            body["ignore_eos"] = True
        return body | (chat if self.api == CHAT else {"prompt": whole})


async def send(client: httpx.AsyncClient, ask: Ask) -> Heard:
    """Send one request and keep what comes, stamped by the running loop's clock."""
    clock = asyncio.get_running_loop().time
    sent = clock()
    pieces: list[Stamped] = []
    wrong: str | None = None
    try:
        async with client.stream("POST", ask.api, json=ask.body(), headers=HEADERS) as answer:
            # opening a connection, through SSH perhaps, is not the server's time
            sent = answer.extensions.get("sent", sent)
            wrong = _no_stream(answer)
            most = SHOWN if wrong else MOST_BYTES
            pieces, framing = await _stamped(answer, most)
            if sum(len(raw) for _, raw in pieces) >= most:
                wrong = wrong or f"the answer is larger than {MOST_BYTES >> 20} MiB"
    except httpx.TimeoutException as e:
        return Heard(ask.prompt, sent, clock(), wrong=f"timed out ({type(e).__name__})")
    except (httpx.HTTPError, httpx.StreamError) as e:
        return Heard(ask.prompt, sent, clock(), wrong=f"the connection broke: {e or type(e).__name__}")
    if wrong is not None:
        shown = _shown(pieces, framing)
        return Heard(ask.prompt, sent, clock(), wrong=f"{wrong}: {shown}" if shown else wrong)
    return Heard(ask.prompt, sent, clock(), pieces, framing)


async def _stamped(answer: httpx.Response, most: int) -> tuple[list[Stamped], Wrapping]:
    """The body, each piece with the time at which it came, and what it is wrapped in; not much more of it than `most`
    bytes."""
    if isinstance(body := answer.extensions.get("body"), Body):
        return await body.stamped(most), body.framing
    clock = asyncio.get_running_loop().time
    pieces: list[Stamped] = []
    size = 0
    async for raw in answer.aiter_raw():  # of a transport that stamps nothing itself
        pieces.append((clock(), raw))
        size += len(raw)
        if size >= most:
            break
    return pieces, UntilClosed


def _shown(pieces: list[Stamped], framing: Wrapping) -> str:
    try:
        text = b"".join(raw for _, raw in unwrapped(pieces, framing()))
    except ValueError:
        text = b"".join(raw for _, raw in pieces)
    return " ".join(text[:SHOWN].decode("utf-8", "replace").split())


def _no_stream(answer: httpx.Response) -> str | None:
    """Why this is no answer to measure; None when it is one."""
    if answer.status_code != 200:
        return f"HTTP {answer.status_code}"
    if (coding := answer.headers.get("content-encoding", "identity")) != "identity":
        return f"the answer is compressed ({coding}), so that its tokens cannot be timed"
    if "text/event-stream" not in (kind := answer.headers.get("content-type", "no type")):
        return f"the answer is no stream but {kind}"
    return None
