"""The load as a whole over a clock that jumps: what is measured, how long it takes, how it ends."""

from __future__ import annotations

import asyncio

import pytest

from dflash_doctor.formats.load import LoadFile
from dflash_doctor.load import preset, workload
from dflash_doctor.load.battery import Preset
from dflash_doctor.load.ctrl_c import Stop
from dflash_doctor.load.deciding import Against
from dflash_doctor.load.pace import Pace, tokens_that_fit
from dflash_doctor.load.rounds import measure
from dflash_doctor.load.warmup import settled
from dflash_doctor.load.watching import Self
from tests.load_server import Server, loaded
from tests.still_clock import run


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


def test_the_thorough_preset_runs_other_kinds_of_work_too():
    file, seconds = loaded(Server(step_s=0.01), "thorough")
    assert [(r.workload, r.concurrency, len(r.requests)) for r in file.rounds] == [
        ("battery", 1, 32), ("battery", 2, 32), ("battery", 3, 32), ("battery", 4, 32), ("copy", 1, 4),
        ("random-words", 1, 4), ("edit", 1, 2), ("chat", 1, 3), ("cold", 1, 2), ("long", 1, 3), ("battery", 1, 64),
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
    assert file.partial and file.notes == [f"stopped by Ctrl-C after {len(well)} of 8 prompts, 1 at once"]


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


def tuned(tok_s, **how):
    return Against({p.id: tok_s for p in workload("battery").prompts}, **how)


def test_a_load_ends_its_first_round_as_soon_as_it_is_decided():
    file, _ = loaded(Server(step_s=0.02, per_step=1), "standard", was=tuned(200.0))
    assert [(r.concurrency, len(r.requests), r.again) for r in file.rounds] == [
        (1, 8, False), (2, 16, False), (4, 16, False), (1, 4, True),
    ]  # fmt: skip
    assert (file.decision.word, file.decision.prompts) == ("regressed", 8)
    assert file.decision.factor == pytest.approx(50 / 200) and not file.partial


def test_an_equal_server_is_told_so_and_one_of_unknown_starts_stays_open():
    file, _ = loaded(Server(step_s=0.02, per_step=1), "standard", was=tuned(50.0, boot_noise=0.0))
    assert (file.decision.word, file.decision.prompts) == ("ok", 8)
    file, _ = loaded(Server(step_s=0.02, per_step=1), "standard", was=tuned(52.0))
    assert (file.decision.word, file.decision.prompts) == ("undecided", 16)
    assert len(file.rounds[0].requests) == 16 and file.decision.detectable == pytest.approx(0.17, abs=0.02)


def test_what_stays_undecided_gets_further_passes_while_there_is_time():
    file, seconds = loaded(Server(step_s=0.01), "thorough", was=tuned(190.0))
    assert file.decision.word == "undecided" and len(file.rounds[-1].requests) == 64 and seconds < 420
    file, _ = loaded(Server(step_s=0.01), "thorough", was=tuned(500.0))
    assert len(file.rounds[0].requests) == 8 and len(file.rounds[-1].requests) == 4
    file, seconds = loaded(Server(step_s=0.05), "thorough", was=tuned(39.0))
    assert 4 <= len(file.rounds[-1].requests) < 64 and seconds <= 420 and not file.partial


def test_a_server_that_became_slower_meanwhile_is_found_out():
    server = Server(step_s=0.02)
    server.refuses = lambda body, path, n: setattr(server, "step_s", 0.02 if n < 40 else 0.021)
    file, _ = loaded(server, "standard")
    assert file.drift.found and file.drift.change == pytest.approx(0.05, abs=0.001) and file.drift.prompts == 4
    steady, _ = loaded(Server(step_s=0.02), "standard")
    assert not steady.drift.found and steady.drift.change == pytest.approx(0, abs=1e-6)
    assert loaded(Server())[0].drift is None, "quick has no time for it"


def test_whoever_watches_sees_what_is_accepted_and_what_is_undecided():
    seen = []
    loaded(Server(), on_progress=seen.append, was=tuned(140.0))
    assert seen[0].accept is seen[0].decision is None
    assert seen[-1].accept == pytest.approx(2, rel=0.05) and seen[-1].decision.prompts == 8


def test_prompts_that_share_a_beginning_have_one_first_line_and_all_others_their_own():
    server = Server(step_s=0.01)
    loaded(server, "thorough")
    cold = [b["messages"][0]["content"] for _, b in server.asked if b["max_tokens"] == 8]
    assert len(cold) == 2 and cold[0] == cold[1]
    chats = [
        b["messages"] for _, b in server.asked if b["messages"][0]["content"].splitlines()[1].startswith("I keep bees")
    ]
    assert [len(m) for m in chats] == [1, 3, 5] and len({m[0]["content"] for m in chats}) == 1
    assert chats[2][:3] == chats[1] and [m["role"] for m in chats[1]] == ["user", "assistant", "user"]
    heads = [b["messages"][0]["content"].splitlines()[0] for _, b in server.asked]
    assert len(heads) - len(set(heads)) == 3


def test_prompts_that_are_too_long_for_a_server_are_left_out():
    small = (200, b'{"data": [{"id": "m", "max_model_len": 16384}]}')
    file, _ = loaded(Server(step_s=0.01, models=small), "thorough")
    left = {r.workload: [q.prompt for q in r.requests] for r in file.rounds if r.workload in ("cold", "long")}
    assert left == {"long": ["long-1k", "long-8k"]}
    assert file.notes == [
        "left out, for the server takes 16384 tokens at most: cold-1, cold-1-again",
        "left out, for the server takes 16384 tokens at most: long-32k",
    ]
