"""Prompts of the battery on their way: each with a first line of its own, each ended when the time is up."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, replace

import httpx

from dflash_doctor.load.battery import Prompt
from dflash_doctor.load.client import Ask, send
from dflash_doctor.load.heard import Heard


@dataclass(frozen=True)
class Sender:
    """Sends prompts in one form to one server."""

    client: httpx.AsyncClient
    ask: Ask

    async def one(self, prompt: Prompt, tokens: int, end: float) -> Heard:
        """Send a prompt; what has not ended by `end` is cancelled."""
        clock = asyncio.get_running_loop().time
        # no prefix cache answers for the server
        text = f"(note {secrets.token_hex(4)})\n{prompt.text}"
        ask = replace(self.ask, prompt=prompt.id, text=text, max_tokens=tokens)
        sent = clock()
        try:
            return await asyncio.wait_for(send(self.client, ask), max(0.01, end - sent))
        except asyncio.TimeoutError:
            # leaving the stream closed the connection, which ends the request on the server
            return Heard(prompt.id, sent, clock(), wrong="the time was up", cancelled=True)
