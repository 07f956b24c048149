"""One request against servers of every kind, over a clock that is handed in."""

from __future__ import annotations

import hashlib
import json

import httpx
import pytest

from dflash_doctor.load.client import CHAT, COMPLETIONS, GENERATE, MESSAGES, Ask, send
from dflash_doctor.load.heard import understood
from tests.still_clock import run, until

DONE = b"data: [DONE]\n\n"
STREAM = {"content-type": "text/event-stream; charset=utf-8"}


class Pieces(httpx.AsyncByteStream):
    """A body whose pieces come at their times; an exception among them is raised."""

    def __init__(self, *pieces):
        self.pieces = pieces
        self.closed = False

    async def __aiter__(self):
        for at, piece in self.pieces:
            await until(at)
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def aclose(self):
        self.closed = True


def event(choice=None, **more):
    return b"data: " + json.dumps({"choices": [] if choice is None else [choice], **more}).encode() + b"\n\n"


def chat(text, finish=None, **delta):
    return event({"index": 0, "delta": {"content": text, **delta}, "finish_reason": finish})


def usage(tokens, prompt=9):
    return event(usage={"prompt_tokens": prompt, "completion_tokens": tokens})


def answer(*pieces, status=200, headers=STREAM, api=CHAT, **ask):
    """How the request went that got these pieces at these times (seconds after it was sent at 100)."""
    seen = []

    def reply(request):
        seen.append(request)
        return httpx.Response(status, headers=headers, stream=Pieces(*((100 + at, piece) for at, piece in pieces)))

    async def ask_it():
        await until(100)
        async with httpx.AsyncClient(transport=httpx.MockTransport(reply), base_url="http://gpu7:8000") as client:
            return understood(await send(client, Ask("code-1", "hello", 16, "m", api=api, **ask)), 98.0)

    result = run(ask_it())
    answer.asked = seen[0]
    return result


PLAIN = (
    (0.2, chat("", role="assistant") + chat("Hel")),
    (0.3, chat("lo")),
    (0.4, chat(" there", finish="length")),
    (0.45, usage(9) + DONE),
)


def test_the_times_of_a_chat_are_those_of_its_tokens():
    r = answer(*PLAIN)
    assert (r.status, r.error, r.prompt, r.finish) == ("ok", None, "code-1", "length")
    assert r.start_ms == pytest.approx(2000)
    assert r.ttft_ms == pytest.approx(200) and r.ttft_visible_ms is None
    assert r.e2e_ms == pytest.approx(400), "the counts after the last token are no part of the answer"
    assert r.tpot_ms == pytest.approx((r.e2e_ms - r.ttft_ms) / (9 - 1)) == pytest.approx(25)


def test_chunks_of_several_tokens_give_the_step_and_usage_the_tokens():
    r = answer(*PLAIN)
    assert (r.input_tokens, r.output_tokens, r.chunks) == (9, 9, 3)
    assert r.chunk_gap_ms == pytest.approx(100)
    assert r.output_sha256 == hashlib.sha256(b"Hello there").hexdigest()


def test_what_is_asked_is_greedy_streamed_counted_and_of_fixed_length():
    answer(*PLAIN)
    body = json.loads(answer.asked.content)
    assert answer.asked.url == "http://gpu7:8000/v1/chat/completions"
    assert answer.asked.headers["accept-encoding"] == "identity"
    assert body == {
        "model": "m", "max_tokens": 16, "temperature": 0, "stream": True, "stream_options": {"include_usage": True},
        "ignore_eos": True, "messages": [{"role": "user", "content": "hello"}],
    }  # fmt: skip


def test_completions_are_heard_too():
    text = [event({"index": 0, "text": t, "finish_reason": f}) for t, f in (("a", None), ("b c", "stop"))]
    r = answer((0.1, text[0]), (0.2, text[1] + usage(3) + DONE), api=COMPLETIONS, ignore_eos=False)
    assert (r.status, r.output_tokens, r.chunks, r.finish) == ("ok", 3, 2, "stop")
    body = json.loads(answer.asked.content)
    assert body["prompt"] == "hello" and "messages" not in body and "ignore_eos" not in body


def native(text, tokens, finish=None, **more):
    meta = {"id": "a", "prompt_tokens": 9, "completion_tokens": tokens, "cached_tokens": 0, "finish_reason": finish}
    return b"data: " + json.dumps({"text": text, "meta_info": meta | more, "output_ids": []}).encode() + b"\n\n"


@pytest.mark.parametrize("texts", [("", "Hel", "Hello", "Hello there"), ("", "Hel", "lo", " there")])
def test_sglangs_own_endpoint_counts_in_every_event(texts):
    pieces = (native(t, n) for t, n in zip(texts, (1, 3, 4, 4), strict=True))
    end = native(texts[-1] if len(texts[-1]) > 6 and texts[2] == "Hello" else "", 9, {"type": "length", "length": 9})
    r = answer(*zip((0.1, 0.2, 0.3, 0.35), pieces, strict=True), (0.4, end + DONE), api=GENERATE)
    assert (r.status, r.input_tokens, r.output_tokens, r.chunks, r.finish) == ("ok", 9, 9, 4, "length")
    assert (r.ttft_ms, r.ttft_visible_ms) == (pytest.approx(100), pytest.approx(200))
    assert r.tpot_ms == pytest.approx(300 / 8) and r.chunk_gap_ms == pytest.approx(100)
    assert r.output_sha256 == hashlib.sha256(b"Hello there").hexdigest()
    assert json.loads(answer.asked.content) == {
        "text": "hello", "stream": True,
        "sampling_params": {"temperature": 0, "max_new_tokens": 16, "ignore_eos": True},
    }  # fmt: skip


def test_sglangs_own_endpoint_says_what_went_wrong():
    aborted = {"type": "abort", "message": "out of room", "status_code": 503}
    r = answer((0.1, native("a", 1)), (0.2, native("a", 1, aborted) + DONE), api=GENERATE)
    assert (r.status, r.error) == ("failed", "the server gave the answer up (finish_reason abort)")
    r = answer((0.1, native("a", "many", {"type": "stop"}) + DONE), api=GENERATE)
    assert r.error == "no token came"


def typed(kind, **more):
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), json.dumps({"type": kind, **more}).encode())


def block(kind, **delta):
    return typed("content_block_delta", index=0, delta={"type": kind, **delta})


def test_anthropics_api_is_heard_too():
    # as vLLM 0.32.0 writes it
    start = typed("message_start", message={"role": "assistant", "content": [], "usage": {"input_tokens": 12}})
    opened = typed("content_block_start", index=0, content_block={"type": "text", "text": ""})
    usage = {"input_tokens": 4, "cache_read_input_tokens": 8, "output_tokens": 5}
    end = typed("message_delta", delta={"stop_reason": "max_tokens", "stop_sequence": None}, usage=usage)
    r = answer(
        (0.1, start + opened + typed("ping")), (0.2, block("thinking_delta", thinking="Hm")),
        (0.3, block("signature_delta", signature="x")), (0.4, block("text_delta", text="Yes")),
        (0.5, block("text_delta", text=".")), (0.6, typed("content_block_stop", index=0) + end + typed("message_stop")),
        api=MESSAGES,
    )  # fmt: skip
    assert (r.status, r.error, r.finish, r.input_tokens, r.output_tokens, r.chunks) == (
        "ok", None, "max_tokens", 12, 5, 3,
    )  # fmt: skip
    assert (r.ttft_ms, r.ttft_visible_ms, r.e2e_ms) == (pytest.approx(200), pytest.approx(400), pytest.approx(600))
    assert json.loads(answer.asked.content) == {
        "model": "m", "max_tokens": 16, "temperature": 0, "stream": True,
        "messages": [{"role": "user", "content": "hello"}],
    }  # fmt: skip
    assert answer((0.1, start + block("text_delta", text="a")), api=MESSAGES).error == "the stream was cut off"
    late = typed("error", error={"type": "overloaded_error", "message": "Overloaded"})
    assert answer((0.1, start), (0.2, late), api=MESSAGES).error == "the server reports an error: Overloaded"


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_a_thought_is_the_first_token_and_the_first_visible_one_is_told_apart(name):
    r = answer(
        (0.1, event({"delta": {"role": "assistant", "content": ""}})),
        (0.2, event({"delta": {name: "Hm"}})),
        (0.5, chat("Yes", finish="stop")),
        (0.5, usage(5) + DONE),
    )
    assert (r.ttft_ms, r.ttft_visible_ms) == (pytest.approx(200), pytest.approx(500))
    assert r.chunks == 2 and r.output_sha256 == hashlib.sha256(b"HmYes").hexdigest()


def test_a_role_is_no_token():
    r = answer((0.1, chat("", role="assistant")), (0.9, chat("x", finish="stop")), (1.0, usage(2) + DONE))
    assert r.ttft_ms == pytest.approx(900)


def test_a_token_that_is_half_a_character_is_a_step_all_the_same():
    steps = ((0.1, chat("")), (0.2, chat("茶")), (0.3, chat("")), (0.4, chat("水")), (0.5, chat("", finish="stop")))
    r = answer(*steps, (0.5, usage(5) + DONE))
    assert (r.chunks, r.ttft_ms, r.chunk_gap_ms) == (5, pytest.approx(100), pytest.approx(100))
    assert r.tpot_ms == pytest.approx(100), "the token that ends the answer is made in a step too"


def test_an_end_without_text_beside_the_last_token_is_no_step():
    r = answer((0.1, chat("a")), (0.2, chat("b") + chat("", finish="length")), (0.2, usage(2) + DONE))
    assert (r.chunks, r.chunk_gap_ms) == (2, pytest.approx(100))


def test_tool_calls_are_tokens():
    call = {"tool_calls": [{"function": {"arguments": "{"}}]}
    r = answer((0.1, event({"delta": call, "finish_reason": "tool_calls"})), (0.1, usage(4) + DONE))
    assert (r.status, r.chunks, r.ttft_ms, r.tpot_ms) == ("ok", 1, pytest.approx(100), None)


def test_an_answer_in_one_piece_has_no_speed():
    r = answer((0.5, chat("a") + chat("b") + chat("c", finish="length") + usage(3) + DONE))
    assert (r.status, r.tpot_ms, r.ttft_ms) == ("ok", None, pytest.approx(500))


def test_chunks_that_were_held_back_and_came_together_are_counted():
    steady = [(0.1 * i, chat("a")) for i in range(1, 11)]
    end = (1.1, chat("a", finish="length") + usage(11) + DONE)
    assert answer(*steady, end).bunched == 0
    late = [(0.1 * (3 * ((i + 2) // 3)), chat("a")) for i in range(1, 11)]  # read in threes
    r = answer(*late, (1.2, end[1]))
    assert r.bunched == pytest.approx(0.7) and r.chunk_gap_ms == pytest.approx(0), "the median is no step"
    proxied = [(at + i * 0.0002, what) for i, (at, what) in enumerate(late)]
    assert answer(*proxied, (1.2, end[1])).bunched >= 0.6


def test_characters_and_lines_may_be_cut_anywhere():
    whole = b"".join((chat("Grüße 🚀"), b": keep-alive\n\n", chat("!", finish="stop"), usage(4), DONE))
    whole = whole.replace(b"\\u00fc", "ü".encode()).replace(b"\n", b"\r\n")
    r = answer(*((0.1 + i / 1000, whole[i : i + 1]) for i in range(len(whole))))
    assert (r.status, r.chunks, r.output_tokens) == ("ok", 2, 4)
    assert r.output_sha256 == hashlib.sha256("Grüße 🚀!".encode()).hexdigest()


def test_keep_alives_are_not_the_first_token():
    r = answer((0.1, b": ping\n\n"), (0.2, b": ping\n\n"), (0.3, chat("x", finish="stop")), (0.3, usage(2) + DONE))
    assert r.ttft_ms == pytest.approx(300)


def test_a_server_may_count_as_it_goes():
    r = answer(
        (0.1, event({"delta": {"content": "a"}}, usage={"prompt_tokens": 5, "completion_tokens": 1})),
        (0.2, event({"delta": {"content": "b"}, "finish_reason": "stop"}, usage={"completion_tokens": 4})),
        (0.2, event(usage=None) + DONE),
    )
    assert r.output_tokens == 4


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        ([(0.1, chat("a")), (0.2, chat("b", finish="stop") + DONE)], "the server counts no tokens (usage is missing)"),
        ([(0.1, chat("a", finish="stop") + usage("many") + DONE)], "the server counts no tokens (usage is missing)"),
        ([(0.1, chat("a", finish="stop") + usage(0) + DONE)], "the server counts 0 tokens, yet text came"),
        ([(0.1, chat("a")), (0.2, chat("b"))], "the stream was cut off"),
        ([(0.1, chat("a")), (0.2, b'data: {"choi')], 'an event of the stream is not JSON: {"choi'),
        ([(0.1, b"data: nonsense\n\n")], "an event of the stream is not JSON: nonsense"),
        ([(0.1, b"data: " + b"[" * 100_000 + b"\n\n")], "an event of the stream is not JSON: [[[["),
        ([(0.1, b"data: [1]\n\ndata: 7\n\n" + DONE)], "no token came"),
        ([(0.1, b'data: {"choices": [7, {"delta": 3}], "usage": 4}\n\n' + DONE)], "no token came"),
        ([], "no token came"),
        ([(0.1, chat("a")), (0.2, event(error={"message": "out of memory", "code": 500}) + DONE)],
         "the server reports an error: out of memory"),
        ([(0.1, b'data: {"type": "message_delta", "usage": 3, "delta": 4}\n\n' + DONE)], "no token came"),
        ([(0.1, chat("a")), (0.2, chat("", finish="abort")), (0.2, usage(1) + DONE)],
         "the server gave the answer up (finish_reason abort)"),
        ([(0.2, b'data: {"object": "error", "message": "too long"}\n\n')], "the server reports an error: too long"),
        ([(0.1, chat("a")), (0.2, httpx.RemoteProtocolError("peer closed connection"))],
         "the connection broke: peer closed connection"),
        ([(0.1, chat("a")), (0.2, httpx.ReadTimeout(""))], "timed out (ReadTimeout)"),
    ],
)  # fmt: skip
def test_what_goes_wrong_has_a_name(pieces, why):
    r = answer(*pieces)
    assert r.status == "failed" and r.error.startswith(why)
    assert r.prompt == "code-1" and r.start_ms == pytest.approx(2000)
    assert r.tpot_ms is None and r.output_tokens is None, "a failed request has no speed"


def test_a_refusal_is_quoted():
    r = answer((0, b'{"error":\n  {"message": "ignore_eos is not permitted"}}'), status=400)
    assert r.error == 'HTTP 400: {"error": {"message": "ignore_eos is not permitted"}}'
    assert answer(status=502).error == "HTTP 502"


def test_a_long_refusal_is_read_to_its_first_lines_only():
    assert len(answer(*((0, b"x" * 100) for _ in range(1000)), status=500).error) < 400


@pytest.mark.parametrize("kind", ["text/html", "application/json"])
def test_a_page_is_no_stream(kind):
    r = answer((0, b"<html><title>Sign in</title>"), headers={"content-type": kind})
    assert r.error == f"the answer is no stream but {kind}: <html><title>Sign in</title>"


def test_a_compressed_stream_is_not_timed():
    r = answer(*PLAIN, headers={**STREAM, "content-encoding": "gzip"})
    assert r.error.startswith("the answer is compressed (gzip), so that its tokens cannot be timed")


def test_an_answer_without_end_is_left():
    r = answer(*((0.1, b"data: " + b"x" * (1 << 20)) for _ in range(64)))
    assert r.error.startswith("the answer is larger than 32 MiB")
