"""What a finished stream says: times, tokens and chunks of one answer.

Definitions are those that vLLM's and SGLang's own benchmarks print: TTFT from sending to the first event that carries a
generated token of any kind, reasoning too; E2E to the last event of the answer, its text or the reason for its end;
TPOT = (E2E - TTFT) / (output tokens - 1). Tokens are the server's `usage`; chunks are counted apart, since with
speculation one carries several tokens: the gap between two is then a step of the engine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any, Literal

from pydantic_core import from_json

from dflash_doctor.formats.load import Request
from dflash_doctor.load.framing import UntilClosed, Wrapping, unwrapped
from dflash_doctor.load.sse import Stamped, events

BUNCHED = 0.1  # of the mean gap: no engine makes one step ten times as fast as the others
DONE = b"[DONE]"
# /v1/messages counts what the prefix cache had apart
PROMPT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
GIVEN_UP = ("abort", "error")  # how vLLM and SGLang end an answer that they could not finish


@dataclass(frozen=True)
class Heard:
    """One answer as it came."""

    prompt: str  # id
    sent: float
    ended: float
    pieces: Sequence[Stamped] = ()
    framing: Wrapping = UntilClosed  # what the pieces are wrapped in
    wrong: str | None = None  # why it is no answer to measure
    cancelled: bool = False  # by us

    @property
    def seconds(self) -> float:
        return self.ended - self.sent


@dataclass
class _Told:
    """What the events said so far."""

    stamps: list[float] = field(default_factory=list)  # of events with generated tokens
    visible: float | None = None
    last: float = 0.0  # when the answer was at its end
    text: list[str] = field(default_factory=list)
    counted: int = 0  # tokens so far, where the events say so (/generate)
    usage: dict[str, Any] = field(default_factory=dict)
    finish: str | None = None
    done: bool = False

    def choice(self, at: float, choice: dict[str, Any]) -> None:
        shown, hidden, made = _said(choice)
        empty = not shown and not hidden
        if made and not (empty and self.stamps and self.stamps[-1] == at):
            self.stamps.append(at)
            self.text.append(hidden + shown)
            self.last = at
            if shown and self.visible is None:
                self.visible = at
        self._end(at, choice.get("finish_reason"))

    def native(self, at: float, text: object, meta: dict[str, Any]) -> None:
        """An event of SGLang's /generate: {"text": "…", "meta_info": {"completion_tokens": 12, "finish_reason": …}}."""
        self.usage = meta
        tokens = meta.get("completion_tokens")
        if isinstance(tokens, int) and tokens > self.counted:
            self.stamps.append(at)
            self.counted, self.last = tokens, at
            self.visible = at if self.visible is None and text else self.visible
        if isinstance(text, str):
            # the text so far; with --incremental-streaming-output only what is new
            if len(self.text) == 1 and text.startswith(self.text[0]):
                self.text.clear()
            self.text.append(text)
        reason = meta.get("finish_reason")
        self._end(at, reason.get("type") if isinstance(reason, dict) else reason)

    def message(self, at: float, event: dict[str, Any]) -> None:
        """An event of /v1/messages: {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "…"}}."""
        delta = event.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        if event["type"] == "content_block_delta":
            shown = delta.get("text") or delta.get("partial_json")
            if said := shown or delta.get("thinking"):
                self.stamps.append(at)
                self.text.append(str(said))
                self.last = at
                self.visible = at if shown and self.visible is None else self.visible
        elif event["type"] == "message_delta":
            usage = event.get("usage")
            usage = usage if isinstance(usage, dict) else {}
            read = [usage[k] for k in PROMPT if isinstance(usage.get(k), int)]
            self.usage = {"completion_tokens": usage.get("output_tokens"), "prompt_tokens": sum(read) if read else None}
            self._end(at, delta.get("stop_reason"))
        elif event["type"] == "message_stop":
            self.done = True

    def _end(self, at: float, reason: object) -> None:
        if isinstance(reason, str):
            self.finish, self.last = reason, at


def understood(heard: Heard, began: float) -> Request:
    """How the request went: ok with its figures, or ended with a named reason. `began` is the start of its round."""
    told = _Told()
    wrong = heard.wrong or _listen(heard, told) or _wanting(told)
    if wrong is not None:
        status: Literal["cancelled", "failed"] = "cancelled" if heard.cancelled else "failed"
        return Request(prompt=heard.prompt, status=status, error=wrong, start_ms=1000 * (heard.sent - began))
    sent, first, last = heard.sent, told.stamps[0], told.last
    tokens = told.usage["completion_tokens"]
    gaps = [b - a for a, b in pairwise(told.stamps)]
    visible = told.visible if told.visible != first else None
    inputs = told.usage.get("prompt_tokens")
    return Request(
        prompt=heard.prompt, status="ok", input_tokens=inputs if isinstance(inputs, int) else None,
        output_tokens=tokens, chunks=len(told.stamps), start_ms=1000 * (sent - began), ttft_ms=1000 * (first - sent),
        ttft_visible_ms=1000 * (visible - sent) if visible is not None else None,
        # an answer in one piece has no speed: what made it so, a proxy or a short answer, hid the time
        tpot_ms=1000 * (last - first) / (tokens - 1) if tokens > 1 and len(gaps) and last > first else None,
        e2e_ms=1000 * (last - sent), chunk_gap_ms=1000 * median(gaps) if gaps else None, bunched=_bunched(gaps),
        finish=told.finish, output_sha256=hashlib.sha256("".join(told.text).encode("utf-8", "replace")).hexdigest(),
    )  # fmt: skip


def _bunched(gaps: Sequence[float]) -> float | None:
    """Share of the gaps that are no step: their chunk came with the one before, from a late reader or a proxy."""
    least = BUNCHED * sum(gaps) / len(gaps) if gaps else 0.0
    return sum(g < least for g in gaps) / len(gaps) if least > 0 else None


def _listen(heard: Heard, told: _Told) -> str | None:
    """Take in the events; why they cannot be measured, or None."""
    try:
        return _take_in(events(unwrapped(heard.pieces, heard.framing())), told)
    except ValueError as e:
        return f"the connection broke: {e}"


def _take_in(stream: Iterable[tuple[float, bytes]], told: _Told) -> str | None:
    for at, raw in stream:
        if raw == DONE or raw.strip() == DONE:
            told.done = True
            continue
        try:
            event = from_json(raw)  # half the time of json.loads; it refuses what is nested too deeply
        except ValueError:
            return f"an event of the stream is not JSON: {raw[:80].decode('utf-8', 'replace')}"
        if not isinstance(event, dict):
            continue
        if event.get("error") or event.get("object") == "error":
            return f"the server reports an error: {_error(event)}"
        if isinstance(event.get("usage"), dict):
            told.usage = event["usage"]
        if isinstance(event.get("meta_info"), dict):
            told.native(at, event.get("text"), event["meta_info"])
        if isinstance(event.get("type"), str):
            told.message(at, event)
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                told.choice(at, choice)
    return None


def _error(event: dict[str, Any]) -> str:
    said = event.get("error") or event
    message = said.get("message") if isinstance(said, dict) else None
    return str(message or said)[:200]


def _wanting(told: _Told) -> str | None:
    """What is missing for a measurement; None when nothing is."""
    if not told.done and told.finish is None:
        return "the stream was cut off" if told.stamps else "no token came"
    if not told.stamps:
        return "no token came"
    if told.finish in GIVEN_UP:
        return f"the server gave the answer up (finish_reason {told.finish})"
    tokens = told.usage.get("completion_tokens")
    if not isinstance(tokens, int) or isinstance(tokens, bool):
        return "the server counts no tokens (usage is missing)"
    if tokens < 1:
        return f"the server counts {tokens} tokens, yet text came"
    return None


def _said(choice: dict[str, Any]) -> tuple[str, str, bool]:
    """Visible and hidden (reasoning) text of one choice in either API, and whether the engine made a token for it."""
    delta = choice.get("delta")
    delta = delta if isinstance(delta, dict) else {}
    shown = delta.get("content", choice.get("text"))
    hidden = delta.get("reasoning_content") or delta.get("reasoning") or ""
    # vLLM sends an empty text when a token is only a part of a character, or ends the answer; the role comes for free
    made = bool(shown or hidden or delta.get("tool_calls")) or (shown == "" and "role" not in delta)
    if not shown and delta.get("tool_calls"):
        shown = json.dumps(delta["tool_calls"])
    return str(shown or ""), str(hidden), made
