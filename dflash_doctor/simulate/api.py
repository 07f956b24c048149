"""What the engines' HTTP API takes and gives, as JSON: completions, models, version, server info."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dflash_doctor.simulate.logs import effective
from dflash_doctor.simulate.scenario import Raw, Scenario
from dflash_doctor.simulate.serving import Chunk, Job, answer
from dflash_doctor.simulate.tally import Tally

COMPLETIONS = {"/v1/chat/completions": "chat", "/v1/completions": "text", "/generate": "generate"}


class Wrong(Exception):
    """A request that the engine refuses."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message

    def body(self) -> bytes:
        kind = "NotFoundError" if self.status == 404 else "BadRequestError"
        return json_bytes({"error": {"message": self.message, "type": kind, "param": None, "code": self.status}})


@dataclass(frozen=True)
class Asked:
    """One completion request."""

    kind: str
    text: str
    max_tokens: int | None
    stream: bool
    usage: bool

    @classmethod
    def read(cls, kind: str, body: Any, scenario: Scenario) -> Asked:
        if not isinstance(body, dict):
            raise Wrong(400, "the body is not an object")
        if kind == "generate":
            params = body.get("sampling_params") or {}
            limit = _count(params, "max_new_tokens")
            return cls(kind, str(body.get("text", "")), limit, bool(body.get("stream")), usage=True)
        model = body.get("model")
        if model is not None and model != scenario.model.name:
            raise Wrong(404, f"The model `{model}` does not exist.")
        text = _messages(body.get("messages")) if kind == "chat" else _prompt(body.get("prompt"))
        usage = bool((body.get("stream_options") or {}).get("include_usage"))
        limit = _count(body, "max_tokens", "max_completion_tokens")
        if limit is None and kind == "text":
            limit = 16  # the default of /v1/completions
        return cls(kind, text, limit, bool(body.get("stream")), usage)


def _count(params: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = params.get(name)
        if value is not None:
            if not isinstance(value, int) or value < 1:
                raise Wrong(400, f"{name} must be at least 1, got {value!r}.")
            return value
    return None


def _messages(messages: Any) -> str:
    if not isinstance(messages, list) or not messages:
        raise Wrong(400, "messages must be a list that is not empty")
    parts = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            content = " ".join(str(part.get("text", "")) for part in content)
        parts.append(f"<|im_start|>{message.get('role')}\n{content or ''}<|im_end|>")
    return "\n".join([*parts, "<|im_start|>assistant"])


def _prompt(prompt: Any) -> str:
    if isinstance(prompt, list):
        prompt = " ".join(str(p) for p in prompt)
    if not isinstance(prompt, str) or not prompt:
        raise Wrong(400, "prompt must be text or a list of tokens")
    return prompt


class Reply:
    """The answer to one request, piece by piece."""

    def __init__(self, asked: Asked, scenario: Scenario, job: Job) -> None:
        self._asked, self._job = asked, job
        self._sglang = scenario.engine == "sglang"
        head = "chatcmpl" if asked.kind == "chat" else "cmpl"
        self._base = {
            "id": f"{head}-{job.mark:016x}",
            "object": "chat.completion.chunk" if asked.kind == "chat" else "text_completion",
            "created": int(time.time()),
            "model": scenario.model.name,
        }

    def events(self, chunk: Chunk) -> bytes:
        """The server-sent events of one chunk."""
        text = answer(self._job.mark, self._job.made - chunk.tokens, chunk.tokens)
        if self._asked.kind == "generate":
            return self._generate(chunk)
        finish = self._job.finish if chunk.done else None
        out = []
        if chunk.gap is None and self._asked.kind == "chat":
            # the role comes in a chunk of its own, at the moment of the first token
            out.append(self._event({"delta": {"role": "assistant", "content": ""}, "finish_reason": None}))
        piece = {"delta": {"content": text}} if self._asked.kind == "chat" else {"text": text}
        if self._sglang and finish and self._asked.kind == "chat":
            # SGLang gives the reason in a chunk after the last text
            out.append(self._event(piece | {"finish_reason": None}))
            out.append(self._event({"delta": {}, "finish_reason": finish}))
        else:
            out.append(self._event(piece | {"finish_reason": finish}))
        if chunk.done:
            if self._asked.usage:
                out.append(b"data: " + json_bytes(self._base | {"choices": [], "usage": self._usage()}) + b"\n\n")
            out.append(b"data: [DONE]\n\n")
        return b"".join(out)

    def whole(self) -> bytes:
        """The reply of a request that is not streamed."""
        text, finish = answer(self._job.mark, 0, self._job.made), self._job.finish
        if self._asked.kind == "generate":
            return json_bytes({"text": text, "meta_info": self._meta(finish)})
        piece: dict[str, Any] = {"text": text}
        if self._asked.kind == "chat":
            piece = {"message": {"role": "assistant", "content": text}}
        kind = "chat.completion" if self._asked.kind == "chat" else "text_completion"
        choice = {"index": 0, **piece, "logprobs": None, "finish_reason": finish}
        return json_bytes(self._base | {"object": kind, "choices": [choice], "usage": self._usage()})

    def _event(self, choice: dict[str, Any]) -> bytes:
        return b"data: " + json_bytes(self._base | {"choices": [{"index": 0, **choice, "logprobs": None}]}) + b"\n\n"

    def _usage(self) -> dict[str, Any]:
        inputs, outputs = len(self._job.prompt), self._job.made
        return {"prompt_tokens": inputs, "total_tokens": inputs + outputs, "completion_tokens": outputs}

    def _generate(self, chunk: Chunk) -> bytes:
        # SGLang's own endpoint sends the whole text so far in every event
        text = answer(self._job.mark, 0, self._job.made)
        event = {"text": text, "meta_info": self._meta(self._job.finish if chunk.done else None)}
        return b"data: " + json_bytes(event) + b"\n\n" + (b"data: [DONE]\n\n" if chunk.done else b"")

    def _meta(self, finish: str | None) -> dict[str, Any]:
        job = self._job
        reason = {"type": finish, "length": job.made} if finish == "length" else finish and {"type": finish}
        return {
            "id": self._base["id"], "finish_reason": reason, "prompt_tokens": len(job.prompt),
            "completion_tokens": job.made, "cached_tokens": job.cached, "spec_verify_ct": job.verifies,
        }  # fmt: skip


def page(scenario: Scenario, path: str, tally: Tally, tok_s: float, port: int) -> bytes | None:
    """The body of a GET, or None when this engine has no such path."""
    s = scenario
    if path == "/health":
        return b""
    if path == "/v1/models":
        row = {
            "id": s.model.name, "object": "model", "created": int(time.time()), "owned_by": s.engine,
            "root": s.model.path, "parent": None, "max_model_len": s.model.context,
        }  # fmt: skip
        return json_bytes({"object": "list", "data": [row]})
    if path == "/version" and s.engine == "vllm":
        return json_bytes({"version": s.version})
    if s.engine == "sglang":
        if path in ("/get_server_info", "/server_info"):
            return json_bytes(server_info(s, tally, tok_s, port))
        if path in ("/get_model_info", "/model_info"):
            return json_bytes({"model_path": s.model.path, "tokenizer_path": s.model.path, "is_generation": True})
    return None


def server_info(scenario: Scenario, tally: Tally, tok_s: float, port: int) -> dict[str, Any]:
    """SGLang's resolved arguments and the state of its scheduler."""
    s = scenario
    args = {k: _plain(v) for k, v in effective(s, port).items()} | {"port": port}
    state: dict[str, Any] = {
        "last_gen_throughput": round(tok_s, 2),
        "memory_usage": {"token_capacity": s.kv_tokens, **s.log.values.get("memory_usage", {})},
        "effective_max_running_requests_per_dp": s.max_seqs,
    }
    if tally.sums.drafts:
        # the mean since the server started, not of the last interval
        state["avg_spec_accept_length"] = 1 + tally.sums.accepted / tally.sums.drafts
    return args | {
        "status": "ready",
        "max_total_num_tokens": s.kv_tokens,
        "max_req_input_len": s.model.context - 6,
        "internal_states": [args | state],
        "version": s.version,
    }


def _plain(value: Any) -> Any:
    return (None if value == "None" else str(value)) if isinstance(value, Raw) else value


def json_bytes(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
