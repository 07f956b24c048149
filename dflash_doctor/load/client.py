"""One streaming request: send, stamp every piece that comes, understand it afterwards.

What the pieces say is read when the round is over (heard.py): reading it meanwhile would delay the stamps of others.
Measured against an exact schedule on two shared cores: 1 to 16 streams of 200 pieces a second give TTFT within 0.1 to
1.4 ms and TPOT within 0.05 %. httpx takes 0.1 to 0.6 ms of a core for each piece, the less the more come at once (the
reading afterwards takes 0.01 ms): 32 such streams fill 0.8 of a core, and from there on stamps are late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from dflash_doctor.load.heard import Heard
from dflash_doctor.load.sse import Stamped

CHAT, COMPLETIONS, GENERATE = "/v1/chat/completions", "/v1/completions", "/generate"  # the last is SGLang's own
APIS = (CHAT, COMPLETIONS, GENERATE)
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
    ignore_eos: bool = True  # answers of equal length; both engines know it

    def body(self) -> dict[str, Any]:
        """The JSON body of the request."""
        if self.api == GENERATE:
            params: dict[str, Any] = {"temperature": 0, "max_new_tokens": self.max_tokens}
            if self.ignore_eos:
                params["ignore_eos"] = True
            return {"text": self.text, "sampling_params": params, "stream": True}
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.ignore_eos:
            body["ignore_eos"] = True
        if self.api == CHAT:
            return body | {"messages": [{"role": "user", "content": self.text}]}
        return body | {"prompt": self.text}


async def send(client: httpx.AsyncClient, ask: Ask) -> Heard:
    """Send one request and keep what comes, stamped by the running loop's clock."""
    clock = asyncio.get_running_loop().time
    sent = clock()

    async def on_its_way(event: str, _: Mapping[str, Any]) -> None:
        # opening a connection, through SSH perhaps, is not the server's time
        nonlocal sent
        if event == "http11.send_request_body.complete":
            sent = clock()

    pieces: list[Stamped] = []
    wrong: str | None = None
    try:
        trace = {"trace": on_its_way}
        async with client.stream("POST", ask.api, json=ask.body(), headers=HEADERS, extensions=trace) as answer:
            wrong = _no_stream(answer)
            size = 0
            async for raw in answer.aiter_raw():
                pieces.append((clock(), raw))
                size += len(raw)
                if size > (SHOWN if wrong else MOST_BYTES):
                    wrong = wrong or f"the answer is larger than {MOST_BYTES >> 20} MiB"
                    break
    except httpx.TimeoutException as e:
        return Heard(ask.prompt, sent, clock(), wrong=f"timed out ({type(e).__name__})")
    except (httpx.HTTPError, httpx.StreamError) as e:
        return Heard(ask.prompt, sent, clock(), wrong=f"the connection broke: {e or type(e).__name__}")
    if wrong is not None:
        shown = " ".join(b"".join(raw for _, raw in pieces)[:SHOWN].decode("utf-8", "replace").split())
        return Heard(ask.prompt, sent, clock(), wrong=f"{wrong}: {shown}" if shown else wrong)
    return Heard(ask.prompt, sent, clock(), pieces)


def _no_stream(answer: httpx.Response) -> str | None:
    """Why this is no answer to measure; None when it is one."""
    if answer.status_code != 200:
        return f"HTTP {answer.status_code}"
    if (coding := answer.headers.get("content-encoding", "identity")) != "identity":
        return f"the answer is compressed ({coding}), so that its tokens cannot be timed"
    if "text/event-stream" not in (kind := answer.headers.get("content-type", "no type")):
        return f"the answer is no stream but {kind}"
    return None
