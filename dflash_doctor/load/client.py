"""One streaming request: send, stamp every piece that comes, understand it afterwards.

Definitions are those of MEASURING.md 3.1: TTFT from sending to the first event that carries a generated token of any
kind, TPOT = (E2E - TTFT) / (output tokens - 1), tokens from the server's `usage`, chunks counted apart.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import httpx

from dflash_doctor.formats.load import Request
from dflash_doctor.load.sse import Stamped, events

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
Clock = Callable[[], float]


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


async def send(client: httpx.AsyncClient, ask: Ask, began: float, clock: Clock = time.monotonic) -> Request:
    """Send one request and say how it went; it ends ok or with a named reason. `began` is the start of the round."""
    pieces: list[Stamped] = []
    sent = clock()
    try:
        async with client.stream("POST", ask.api, json=ask.body()) as answer:
            if answer.status_code != 200:
                said = (await answer.aread())[:300].decode("utf-8", "replace")
                return _failed(ask, sent - began, f"HTTP {answer.status_code}: {' '.join(said.split())}")
            async for raw in answer.aiter_raw():
                pieces.append((clock(), raw))
    except httpx.TimeoutException as e:
        return _failed(ask, sent - began, f"timed out ({type(e).__name__})")
    except httpx.HTTPError as e:
        return _failed(ask, sent - began, f"the connection broke: {e or type(e).__name__}")
    return understood(ask, sent, clock(), pieces, began)


def understood(ask: Ask, sent: float, ended: float, pieces: Sequence[Stamped], began: float) -> Request:
    """What a finished stream says."""
    stamps: list[float] = []
    visible: float | None = None
    text: list[str] = []
    usage: dict[str, Any] = {}
    finish: str | None = None
    done = False
    for at, raw in events(pieces):
        if raw.strip() == b"[DONE]":
            done = True
            continue
        try:
            event = json.loads(raw)
        except ValueError:
            return _failed(ask, sent - began, "an event of the stream is not JSON")
        if not isinstance(event, dict):
            continue
        if event.get("error"):
            return _failed(ask, sent - began, f"the server reports an error: {str(event['error'])[:200]}")
        usage = event.get("usage") or usage
        for choice in event.get("choices") or ():
            shown, hidden = _said(choice)
            finish = choice.get("finish_reason") or finish
            if shown or hidden:
                stamps.append(at)
                text.append(hidden + shown)
                visible = visible if visible is not None or not shown else at
    tokens = usage.get("completion_tokens")
    if not stamps or not isinstance(tokens, int):
        why = "no token came" if not stamps else "the server counts no tokens (usage is missing)"
        return _failed(ask, sent - began, why)
    if not done and finish is None:
        return _failed(ask, sent - began, "the stream was cut off")
    first, last = stamps[0], stamps[-1]
    gaps = [b - a for a, b in pairwise(stamps)]
    return Request(
        prompt=ask.prompt, status="ok", input_tokens=usage.get("prompt_tokens"), output_tokens=tokens,
        chunks=len(stamps), start_ms=1000 * (sent - began), ttft_ms=1000 * (first - sent),
        ttft_visible_ms=1000 * (visible - sent) if visible is not None and visible != first else None,
        tpot_ms=1000 * (last - first) / (tokens - 1) if tokens > 1 and len(stamps) > 1 else None,
        e2e_ms=1000 * (ended - sent), chunk_gap_ms=1000 * median(gaps) if gaps else None, finish=finish,
        output_sha256=hashlib.sha256("".join(text).encode()).hexdigest(),
    )  # fmt: skip


def _said(choice: dict[str, Any]) -> tuple[str, str]:
    """Visible and hidden (reasoning) text of one choice, in either API."""
    delta = choice.get("delta") or {}
    shown = delta.get("content") or choice.get("text") or ""
    if not shown and delta.get("tool_calls"):
        shown = json.dumps(delta["tool_calls"])
    return str(shown), str(delta.get("reasoning_content") or delta.get("reasoning") or "")


def _failed(ask: Ask, start: float, why: str) -> Request:
    return Request(prompt=ask.prompt, status="failed", error=why, start_ms=1000 * start)
