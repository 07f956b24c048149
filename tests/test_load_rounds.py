"""The load as a whole against servers made of a function, over a clock that jumps: no socket, no waiting."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from dflash_doctor.formats.load import LoadFile
from dflash_doctor.load import preset, workload
from dflash_doctor.load.battery import Preset
from dflash_doctor.load.ctrl_c import Stop
from dflash_doctor.load.pace import Pace, tokens_that_fit
from dflash_doctor.load.rounds import measure
from dflash_doctor.load.rounds import run as start
from dflash_doctor.load.warmup import settled
from dflash_doctor.load.watching import Self
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


def asked_tokens(body):
    return body.get("max_tokens") or body["sampling_params"]["max_new_tokens"]


class Answer(httpx.AsyncByteStream):
    def __init__(self, server, path, tokens):
        self.server, self.path, self.tokens, self.ended = server, path, tokens, False
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
            yield b"data: " + json.dumps({"choices": [{**piece, "finish_reason": finish}]}).encode() + b"\n\n"
        counts = {"prompt_tokens": 50, "completion_tokens": given}
        self.ended = True
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


def test_the_battery_goes_through_at_every_concurrency():
    server = Server()
    file, seconds = loaded(server)
    assert [(r.concurrency, len(r.requests)) for r in file.rounds] == [(1, 8), (2, 8)]
    assert [r.prompt for r in file.rounds[0].requests] == [p.id for p in workload("battery").prompts[:8]]
    assert {r.status for x in file.rounds for r in x.requests} == {"ok"}
    assert not file.partial and file.notes == [] and seconds < 30 and server.most == 2 and server.left == 0
    assert file.warmup is not None and (file.warmup.requests, file.warmup.settled) == (8, True)
    assert LoadFile.model_validate_json(file.model_dump_json(by_alias=True)) == file


def test_what_the_server_does_is_what_is_measured():
    file, _ = loaded(Server(ttft_s=0.25, step_s=0.03, per_step=3))
    for x in file.rounds:
        for r in x.requests:
            assert r.ttft_ms == pytest.approx(250) and r.chunk_gap_ms == pytest.approx(30)
            assert (r.output_tokens, r.chunks) == (x.max_tokens, 1 + -(-(x.max_tokens - 1) // 3))
            assert r.tpot_ms == pytest.approx((r.e2e_ms - r.ttft_ms) / (x.max_tokens - 1))
        assert x.server.accept_length == 3
        assert x.server.output_tokens == 8 * x.max_tokens
        assert x.wall_ms == pytest.approx(sum(r.e2e_ms for r in x.requests) / x.concurrency)


def test_all_requests_of_a_run_have_the_same_length_and_a_first_line_of_their_own():
    server = Server()
    file, _ = loaded(server)
    lengths = [body["max_tokens"] for _, body in server.asked]
    assert set(lengths[:8]) == {16} and set(lengths[8:]) == {r.max_tokens for r in file.rounds}
    heads = [body["messages"][0]["content"].splitlines()[0] for _, body in server.asked]
    assert len(set(heads)) == len(heads) == 24


@pytest.mark.parametrize("step_s", [0.005, 0.02, 0.05, 0.1, 0.4, 1.0])
def test_the_slower_the_server_the_shorter_the_answers_and_the_cap_holds(step_s):
    file, seconds = loaded(Server(step_s=step_s))
    assert seconds <= 30 + 1
    assert file.rounds[0].max_tokens in preset("quick").tokens
    assert not file.partial or step_s >= 0.4


def test_tokens_fit_the_time_at_the_pace_of_the_warm_up():
    quick = preset("quick")
    assert tokens_that_fit(quick, Pace(0.1, 0.005), 28) == 256
    assert tokens_that_fit(quick, Pace(0.1, 0.06), 25) == 24
    assert tokens_that_fit(quick, Pace(0.1, 60.0), 25) == quick.tokens[-1]
    assert tokens_that_fit(quick, Pace(1.5, 0.005), 28) < 256, "waiting for first tokens takes time too"


def test_a_server_has_settled_when_its_latest_steps_are_those_of_just_before():
    assert settled([90, 60, 44, 45, 43.9, 44.4, 44.1, 44.8])
    assert settled([44, 44, 44, 44, 44, 44.2, 47, 44.1]), "one odd request proves nothing"
    assert not settled([90, 80, 70, 60, 52, 48, 46, 44])
    assert settled([44, 44]) and not settled([44]) and not settled([])


def test_a_server_that_warms_up_slowly_gets_more_time_for_it():
    server = Server()
    server.refuses = lambda body, path, n: setattr(server, "step_s", max(0.02, 0.06 - 0.004 * n))
    file, _ = loaded(server)
    assert 8 < file.warmup.requests < 16 and file.warmup.settled
    assert not file.partial


def test_a_server_that_never_settles_is_measured_and_the_file_says_so():
    server = Server()
    server.refuses = lambda body, path, n: setattr(server, "step_s", 0.01 + 0.001 * n)
    file, _ = loaded(server)
    assert (file.warmup.requests, file.warmup.settled) == (16, False) and len(file.rounds) == 2


def test_prompts_that_the_prefix_cache_had_all_the_same_are_told_of():
    server = Server()
    server.more = lambda: (
        f"vllm:prefix_cache_queries_total {100 * len(server.asked)}\n"
        + (f"vllm:prefix_cache_hits_total {80 * len(server.asked)}\n")
    )
    file, _ = loaded(server)
    assert file.notes == ["80% of the prompts came from the prefix cache: first tokens came sooner than they would"] * 2


def test_the_thorough_preset_runs_the_ceiling_and_the_floor_of_acceptance_too():
    file, seconds = loaded(Server(step_s=0.01), "thorough")
    assert [(r.workload, r.concurrency, len(r.requests)) for r in file.rounds] == [
        ("battery", 1, 32), ("battery", 2, 32), ("battery", 3, 32), ("battery", 4, 32), ("copy", 1, 4),
        ("random-words", 1, 4),
    ]  # fmt: skip
    assert not file.partial and seconds < 420


def test_a_server_that_is_far_too_slow_gives_what_it_gives_and_nothing_runs_on():
    server = Server(ttft_s=2.0, step_s=1.5)
    file, seconds = loaded(server, "brief")
    assert file.partial and seconds <= 15 + 1
    assert any("the time was up" in n or "no time was left" in n for n in file.notes)
    assert server.running == 0


def test_a_request_that_would_not_end_in_time_is_not_begun():
    server = Server(ttft_s=0.5, step_s=0.5)
    file, _ = loaded(server, Preset("x", 20.0, 8, (1, 2), 1, 4, (16,)))
    assert file.partial and 0 < len(file.rounds[0].requests) < 8
    assert all(r.status == "ok" for x in file.rounds for r in x.requests) and server.left == 0


def test_a_server_that_becomes_slow_is_cut_off_at_the_cap():
    server = Server(step_s=0.01)
    server.refuses = lambda body, path, n: setattr(server, "step_s", 0.01 if n < 12 else 30.0)
    file, seconds = loaded(server, "brief")
    assert file.partial and seconds <= 15 + 1 and server.running == 0 and server.left == 1
    cut = file.rounds[0].requests[-1]
    assert (cut.status, cut.error, cut.tpot_ms) == ("cancelled", "the time was up", None)
    assert "the time was up after 7 of 8 prompts, 1 at once" in file.notes


# -- who else is there ------------------------------------------------------------------------------------------------


def test_a_busy_server_is_left_alone():
    server = Server(foreign=lambda now: 3)
    why, seconds = refusal(server)
    assert why.startswith("3 other requests are running") and "--busy-ok" in why
    assert server.asked == [] and seconds < 1


def test_a_busy_server_is_loaded_when_that_is_wanted_and_the_file_says_so():
    file, _ = loaded(Server(foreign=lambda now: 1), allowed=None)
    assert "1 other request is running when the load began" in file.notes
    assert [r.server.foreign_running_max for r in file.rounds] == [1, 1]


def test_a_few_requests_of_others_may_be_allowed():
    assert len(loaded(Server(foreign=lambda now: 1), allowed=1)[0].rounds) == 2
    assert "2 other requests are running" in refusal(Server(foreign=lambda now: 2), allowed=1)[0]


def test_requests_of_others_that_come_meanwhile_are_seen():
    file, _ = loaded(Server(foreign=lambda now: 4 if 6 < now < 9 else 0))
    assert max(r.server.foreign_running_max for r in file.rounds) == 4
    assert any(n.startswith("up to 4 requests of others ran beside") for n in file.notes)


def test_a_server_without_metrics_is_measured_without_them():
    file, _ = loaded(Server(metrics=False))
    assert all(r.server is None for r in file.rounds) and len(file.rounds) == 2
    assert file.notes == ["the server exports no metrics: whether others use it meanwhile is not known"]


# -- servers of every kind --------------------------------------------------------------------------------------------


def test_a_server_without_ignore_eos_is_asked_without():
    server = Server(refuses=lambda body, path, n: (400, "unknown field ignore_eos") if "ignore_eos" in body else None)
    file, _ = loaded(server)
    assert file.api == "/v1/chat/completions" and len(file.rounds) == 2
    assert file.notes == ["the server does not take ignore_eos: answers end when they end"]


@pytest.mark.parametrize("status", [400, 404])
def test_a_server_without_a_chat_template_gets_completions(status):
    server = Server(refuses=lambda body, path, n: (status, "no chat template") if "chat" in path else None)
    file, _ = loaded(server)
    assert file.api == "/v1/completions" and len(file.rounds) == 2
    assert server.asked[-1][1]["ignore_eos"] is True
    assert file.notes[0].startswith(f"requests go to /v1/completions, without a chat template (HTTP {status}")
    assert len([p for p, _ in server.asked if "chat" in p]) <= 2


def test_an_sglang_server_that_has_only_its_own_api_is_asked_so():
    server = Server(refuses=lambda body, path, n: (404, "Not Found") if path.startswith("/v1") else None)
    file, _ = loaded(server)
    assert file.api == "/generate" and [len(r.requests) for r in file.rounds] == [8, 8]
    assert {r.output_tokens for r in file.rounds[0].requests} == {file.rounds[0].max_tokens}


def test_an_api_that_was_asked_for_is_the_only_one_tried():
    server = Server(refuses=lambda body, path, n: (400, "no") if path == "/v1/completions" else None)
    assert refusal(server, apis=("/v1/completions",))[0].endswith('HTTP 400: {"error": {"message": "no"}}')
    assert {path for path, _ in server.asked} == {"/v1/completions"}
    assert loaded(Server(), apis=("/v1/completions",))[0].api == "/v1/completions"
    with pytest.raises(Refused, match="--api /chat is not known; it is one of /v1/chat/completions"):
        start("http://gpu7:8000", api="/chat")


def test_a_server_that_refuses_every_form_is_quoted():
    why, seconds = refusal(Server(refuses=lambda body, path, n: (400, "max_tokens is too many")))
    assert why.startswith("the first requests fail, so nothing can be measured: HTTP 400")
    assert "max_tokens is too many" in why and seconds < 1


def test_a_wanted_key_is_not_tried_around():
    server = Server(refuses=lambda body, path, n: (401, "Unauthorized"))
    assert "HTTP 401" in refusal(server)[0] and len(server.asked) == 1
    why, _ = refusal(Server(models=(401, b"")))
    assert why == "http://gpu7:8000/v1/models answers 401; give the key with --api-key-env or --api-key-file"


def test_a_key_that_cannot_be_sent_is_not_shown():
    why, _ = refusal(Server(), api_key="se\ncret")
    assert why == "the API key has characters that cannot be sent in a header"


@pytest.mark.parametrize(
    "body", [b'{"data": []}', b"<html>hello</html>", b"[]", b'{"data": [{}]}', b"\xff", b"[" * 10**5]
)
def test_a_server_that_names_no_model_is_no_engine(body):
    assert refusal(Server(models=(200, body)))[0].endswith("names no model: is this a vLLM or SGLang server?")


def test_a_server_that_accepts_and_never_answers_ends_within_the_cap():
    why, seconds = refusal(Server(silent=("/v1/models",)))
    assert "no answer to /v1/models within 5 s" in why and seconds < 6
    why, seconds = refusal(Server(silent=("/v1/chat/completions",)))
    assert why == "the first requests fail, so nothing can be measured: the time was up" and seconds <= 31


def test_metrics_that_never_come_do_not_hold_up_the_rounds():
    file, seconds = loaded(Server(silent=("/metrics",)))
    assert len(file.rounds) == 2 and seconds <= 30 + 6 and file.rounds[0].server is None


def test_nobody_listening_is_said():
    def refused(request):
        raise httpx.ConnectError("All connection attempts failed")

    assert (
        refusal(httpx.MockTransport(refused))[0]
        == "nothing answers at http://gpu7:8000: All connection attempts failed"
    )


def test_a_server_that_dies_in_the_middle_leaves_what_was_measured():
    server = Server(refuses=lambda body, path, n: (503, "engine dead") if n > 12 else None)
    file, _ = loaded(server)
    assert [r.status for r in file.rounds[0].requests].count("ok") == 4
    assert "engine dead" in file.rounds[0].requests[-1].error


def test_a_load_that_is_interrupted_leaves_no_request():
    server = Server()

    async def interrupted():
        task = asyncio.create_task(measure("http://gpu7:8000", preset("quick"), transport=server))
        await asyncio.sleep(4.33)
        assert server.running == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert server.running == 0 and len(asyncio.all_tasks()) == 1

    run(interrupted())


def test_a_client_that_does_not_keep_up_says_so():
    assert Self(0, cpu_share=0.04, late_s=0.2, ticks=400, late_ticks=2).doubt() is None, "one hiccup moves no median"
    assert (
        "busy (4% of a core, late 10% of the time, by at most 200 ms)"
        in Self(0, cpu_share=0.04, late_s=0.2, ticks=400, late_ticks=40).doubt()
    )
    assert Self(0, cpu_share=0.8).doubt().startswith("the client itself was busy (80% of a core")
    assert Self(0).doubt() is None


def stopped_at(moment, server):
    """What a load leaves that is stopped then, and how long it took to stop."""

    async def stopped():
        stop, clock = Stop(), asyncio.get_running_loop().time
        task = asyncio.create_task(measure("http://gpu7:8000", preset("quick"), transport=server, stop=stop))
        await asyncio.sleep(moment)
        assert server.running > 0
        stop.ask()
        return await task, clock() - moment

    return run(stopped())


def test_a_load_that_is_stopped_keeps_what_was_measured():
    server = Server()
    file, seconds = stopped_at(8.0, server)
    assert server.running == 0 and server.left == 1 and seconds < 1
    (x,) = file.rounds
    *well, last = x.requests
    assert {r.status for r in well} == {"ok"} and (last.status, last.error) == ("cancelled", "stopped by Ctrl-C")
    assert file.partial and file.notes == [
        f"stopped by Ctrl-C after {len(well)} of 8 prompts, 1 at once", "stopped by Ctrl-C before 2 at once",
    ]  # fmt: skip


def test_a_load_that_is_stopped_late_keeps_the_round_before_whole():
    server = Server(step_s=0.01)
    file, _ = stopped_at(15.0, server)
    assert server.running == 0 and server.left == 2
    assert [r.status for r in file.rounds[0].requests] == ["ok"] * 8
    assert [r.status for r in file.rounds[1].requests].count("cancelled") == 2


def test_whoever_watches_is_told():
    seen = []
    loaded(Server(), on_progress=seen.append)
    assert {p.phase for p in seen} == {"warm-up", "1 at once", "2 at once"} and len(seen) == 24
    assert seen[-1].done == seen[-1].total == 8 and seen[-1].cap_s == 30
    assert seen[10].tok_s == pytest.approx(93, rel=0.01), "what the round gave so far, first tokens included"
