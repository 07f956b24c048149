"""Prompts of the battery on their way: each with a first line of its own, each ended when the time is up."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field, replace

import httpx

from dflash_doctor.load.battery import Prompt
from dflash_doctor.load.client import Ask, send
from dflash_doctor.load.ctrl_c import WORD, Stop
from dflash_doctor.load.heard import Heard


@dataclass(frozen=True)
class Sender:
    """Sends prompts in one form to one server."""

    client: httpx.AsyncClient
    ask: Ask
    stop: Stop
    lines: dict[str, str] = field(default_factory=dict)  # first lines of prompts that share theirs

    async def one(self, prompt: Prompt, tokens: int, end: float) -> Heard:
        """Send a prompt; what has not ended by `end`, or by Ctrl-C, is cancelled."""
        clock = asyncio.get_running_loop().time
        # no prefix cache answers for the server, but where that is what is looked at
        line = f"(note {secrets.token_hex(4)})\n"
        if prompt.shares:
            line = self.lines.setdefault(prompt.shares, line)
        text, before = prompt.text, prompt.before
        if before:
            (role, first), *later = before
            before = ((role, line + first), *later)
        else:
            text = line + text
        ask = replace(self.ask, prompt=prompt.id, text=text, before=before, max_tokens=prompt.tokens or tokens)
        sent = clock()
        request = asyncio.ensure_future(send(self.client, ask))
        # leaving the stream closes the connection, which ends the request on the server
        try:
            with self.stop.ends(request):
                return await asyncio.wait_for(request, max(0.01, end - sent))
        except asyncio.TimeoutError:
            return Heard(prompt.id, sent, clock(), wrong="the time was up", cancelled=True)
        except asyncio.CancelledError:
            if not self.stop.asked:
                raise
            return Heard(prompt.id, sent, clock(), wrong=WORD, cancelled=True)
