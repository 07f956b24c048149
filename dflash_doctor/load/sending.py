"""Prompts of the battery on their way: each with a first line of its own, each ended when the time is up."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, replace

import httpx

from dflash_doctor.formats.load import Request
from dflash_doctor.load.battery import Prompt
from dflash_doctor.load.client import Ask, send


@dataclass(frozen=True)
class Sender:
    """Sends prompts in one form to one server."""

    client: httpx.AsyncClient
    ask: Ask

    async def one(self, prompt: Prompt, tokens: int, began: float, end: float) -> Request:
        """Send a prompt; what has not ended by `end` is cancelled. `began` is the start of its round."""
        clock = asyncio.get_running_loop().time
        # no prefix cache answers for the server
        text = f"(note {secrets.token_hex(4)})\n{prompt.text}"
        ask = replace(self.ask, prompt=prompt.id, text=text, max_tokens=tokens)
        sent = clock()
        try:
            return await asyncio.wait_for(send(self.client, ask, began), max(0.01, end - sent))
        except asyncio.TimeoutError:
            # leaving the stream closed the connection, which ends the request on the server
            return Request(
                prompt=prompt.id, status="cancelled", error="the time was up", start_ms=1000 * (sent - began)
            )
