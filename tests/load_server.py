"""Servers made of a function, for the load as a whole over a clock that jumps: no socket, no waiting."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from dflash_doctor.load import preset
from dflash_doctor.load.battery import Preset
from dflash_doctor.load.rounds import measure
from dflash_doctor.model import Refused
from tests.still_clock import run

STREAM = {"content-type": "text/event-stream"}


class Server(httpx.AsyncBaseTransport):
    """Streams `per_step` tokens every `step_s`; more requests at once make no step slower."""

    def __init__(self, ttft_s=0.1, step_s=0.02, per_step=2, **odd):
        self.ttft_s, self.step_s, self.per_step = ttft_s, step_s, per_step
        self.foreign = odd.get("foreign", lambda now: 0)
        self.metrics = odd.get("metrics", True)
        self.models = odd.get("models", (200, b'{"data": [{"id": "m"}]}'))
        self.refuses = odd.get("refuses", lambda body, path, n: None)
        self.longest = odd.get("longest", 10**9)  # answer, whatever is asked
        self.more = lambda: ""  # lines of /metrics
        self.silent = odd.get("silent", ())  # paths that are accepted and never answered
        self.asked, self.running, self.most, self.steps, self.made, self.left = [], 0, 0, 0, 0, 0

    async def handle_async_request(self, request):
        path = request.url.path
        if path in self.silent:
            await asyncio.sleep(10_000)
        if path == "/v1/models":
            status, body = self.models
            return httpx.Response(status, content=body)
        if path == "/metrics":
            return httpx.Response(200, text=self.counted()) if self.metrics else httpx.Response(404)
        body = json.loads(request.content)
        self.asked.append((path, body))
        if refusal := self.refuses(body, path, len(self.asked)):
            status, why = refusal
            return httpx.Response(status, stream=httpx.ByteStream(json.dumps({"error": {"message": why}}).encode()))
        return httpx.Response(200, headers=STREAM, stream=Answer(self, path, asked_tokens(body)))

    def counted(self):
        now = asyncio.get_running_loop().time()
        return (
            f'vllm:num_requests_running{{engine="0"}} {self.running + self.foreign(now)}\n'
            f'vllm:num_requests_waiting{{engine="0"}} 0\n'
            f"vllm:spec_decode_num_drafts_total {self.steps}\n"
            f"vllm:spec_decode_num_accepted_tokens_total {self.steps * (self.per_step - 1)}\n"
            f"vllm:generation_tokens_total {self.made}\n"
        ) + self.more()


def typed(kind, **more):
    return b"event: " + kind.encode() + b"\ndata: " + json.dumps({"type": kind, **more}).encode() + b"\n\n"


def asked_tokens(body):
    return body.get("max_tokens") or body["sampling_params"]["max_new_tokens"]


class Answer(httpx.AsyncByteStream):
    def __init__(self, server, path, tokens):
        self.server, self.path, self.tokens, self.ended = server, path, min(tokens, server.longest), False
        server.running += 1
        server.most = max(server.most, server.running)

    async def __aiter__(self):
        s, given = self.server, 0
        while given < self.tokens:
            await asyncio.sleep(s.step_s if given else s.ttft_s)
            n = min(s.per_step, self.tokens - given) if given else 1
            given += n
            s.made += n
            s.steps += given > 1
            text, finish = "tok " * n, "length" if given == self.tokens else None
            piece = {"delta": {"content": text}} if "chat" in self.path else {"text": text}
            if self.path == "/generate":
                meta = {"completion_tokens": given, "finish_reason": finish and {"type": finish}}
                yield b"data: " + json.dumps({"text": text, "meta_info": meta}).encode() + b"\n\n"
                continue
            if self.path == "/v1/messages":
                yield typed("content_block_delta", delta={"type": "text_delta", "text": text})
                continue
            yield b"data: " + json.dumps({"choices": [{**piece, "finish_reason": finish}]}).encode() + b"\n\n"
        counts = {"prompt_tokens": 50, "completion_tokens": given}
        self.ended = True
        if self.path == "/v1/messages":
            counts = {"input_tokens": 50, "output_tokens": given}
            yield typed("message_delta", delta={"stop_reason": "max_tokens"}, usage=counts) + typed("message_stop")
            return
        yield b"data: " + json.dumps({"choices": [], "usage": counts}).encode() + b"\n\ndata: [DONE]\n\n"

    async def aclose(self):
        self.server.running -= 1
        self.server.left += not self.ended


def loaded(server, name="quick", **how):
    """(the file, seconds it took) for a load on this server."""

    async def timed():
        clock = asyncio.get_running_loop().time
        began = clock()
        chosen = name if isinstance(name, Preset) else preset(name)
        try:
            return await measure("http://gpu7:8000", chosen, transport=server, **how), clock() - began
        except Refused as e:
            e.seconds = clock() - began
            raise

    return run(timed())


def refusal(server, **how):
    with pytest.raises(Refused) as e:
        loaded(server, **how)
    return str(e.value), e.value.seconds
