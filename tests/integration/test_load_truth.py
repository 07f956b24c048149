"""What the client measures is what the server did: held against exact schedules, and against the simulated host."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest
from typer.testing import CliRunner

from dflash_doctor import load
from dflash_doctor.cli import app
from dflash_doctor.load import asking, counters, hotloop, rounds
from dflash_doctor.load.battery import Preset
from dflash_doctor.model import Refused
from dflash_doctor.simulate import scenario as scenarios
from dflash_doctor.simulate.host import SimulatedHost
from tests.integration.clockwork import Clockwork

WARM = 2


def preset(seconds=20.0, concurrency=(1, 2), tokens=96, prompts=8):
    return Preset("short", seconds, prompts, concurrency, WARM, 16, (tokens,))


@pytest.fixture
def measured(monkeypatch):
    """A load of a preset made for the test."""

    def measured(url, chosen, **how):
        monkeypatch.setattr(rounds, "preset", lambda _: chosen)
        return load.run(url, **how)

    return measured


def disagreements(x, told):
    """How a round differs from what was sent, by its best-timed answers: other work on this machine delays some of
    them, on both sides; a client that measures wrong delays all."""
    pairs = list(zip(sorted(x.requests, key=lambda r: r.start_ms), sorted(told, key=lambda t: t.began), strict=True))
    assert [r.output_tokens for r, _ in pairs] == [t.tokens for _, t in pairs]
    late = min(r.ttft_ms - t.ttft_ms for r, t in pairs)
    pace = min((r.tpot_ms / t.tpot_ms - 1 for r, t in pairs), key=abs)
    step = min((r.chunk_gap_ms / t.step_ms - 1 for r, t in pairs), key=abs)
    found = [f"TTFT is off by {late:.1f} ms"] if not -0.2 < late < 2 else []
    found += [f"TPOT is off by {pace:.1%}"] if abs(pace) >= 0.005 else []
    # a step is told from gaps at one request at a time only
    return found + ([f"steps are off by {step:.1%}"] if abs(step) >= 0.01 and x.concurrency == 1 else [])


def test_times_and_tokens_are_those_of_the_schedule(measured):
    with Clockwork(ttft_s=0.03, step_s=0.005) as server:
        file = measured(server.url, preset(tokens=64))
    told = server.truth[WARM:]
    assert [disagreements(x, t) for x, t in zip(file.rounds, (told[:8], told[8:]), strict=True)] == [[], []]
    assert {r.output_tokens for x in file.rounds for r in x.requests} == {64}
    assert not file.partial and not server.gone


def test_chunks_of_several_tokens_give_the_step_time(measured):
    with Clockwork(ttft_s=0.02, step_s=0.015, per_step=4) as server:
        file = measured(server.url, preset(concurrency=(1,), prompts=5))
    (x,) = file.rounds
    assert {(r.output_tokens, r.chunks) for r in x.requests} == {(96, 24)}
    assert disagreements(x, server.truth[WARM:]) == []


def test_several_streams_at_once_do_not_blur_each_other(measured):
    with Clockwork(ttft_s=0.05, step_s=0.01) as server:
        file = measured(server.url, preset(concurrency=(4,), tokens=64))
    (x,) = file.rounds
    assert disagreements(x, server.truth[WARM:]) == []


def reads_late(read, self, fd, taken):
    time.sleep(0.003)
    return read(self, fd, taken)


def stamps_slowly(read, self, fd, taken):
    began = self.__dict__.setdefault("began", time.monotonic())
    return read(self, fd, lambda at, raw: taken(began + 1.02 * (at - began), raw))


def stamps_in_pairs(read, self, fd, taken):
    odd = self.__dict__.setdefault("odd", [])
    odd.append(time.monotonic())
    return read(self, fd, lambda at, raw: taken(odd[-2] if len(odd) % 2 == 0 else at, raw))


@pytest.mark.parametrize(
    ("wrong", "why"), [(reads_late, "TTFT is off"), (stamps_slowly, "TPOT is off"), (stamps_in_pairs, "steps are off")]
)
def test_a_client_that_measures_wrong_is_found_out_by_the_same_comparison(measured, monkeypatch, wrong, why):
    read = hotloop._Reading._read
    monkeypatch.setattr(hotloop._Reading, "_read", lambda self, fd, taken: wrong(read, self, fd, taken))
    with Clockwork(ttft_s=0.02, step_s=0.005) as server:
        file = measured(server.url, preset(concurrency=(1,), tokens=32, prompts=4))
    assert why in str(disagreements(file.rounds[0], server.truth[WARM:]))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_acceptance_of_the_simulated_host_is_recovered_and_no_step_is_shorter_than_its_own(measured, engine):
    # that none is longer holds on a quiet machine only: bench/load_truth.py
    scenario = scenarios.vary(
        scenarios.load("a6000-tuned" if engine == "sglang" else "a6000-dflash"),
        timing={"step_time_ms": 20.0, "noise": 0.0, "boot_noise": 0.0, "prefill_tok_s": 20000.0},
        acceptance={"chances": [0.9, 0.8, 0.6], "spread": 0.0, "depth": 3},
    )
    with SimulatedHost(scenario) as host:
        file = measured(host.url, preset(concurrency=(1,), tokens=160, prompts=3))
    (x,) = file.rounds
    assert all(r.chunk_gap_ms > 0.98 * 20 for r in x.requests)
    length = 1 + 0.9 + 0.9 * 0.8 + 0.9 * 0.8 * 0.6
    by_client = sum(r.output_tokens - 1 for r in x.requests) / sum(r.chunks - 1 for r in x.requests)
    assert by_client == pytest.approx(length, rel=0.02)
    assert x.server.accept_length == pytest.approx(length, rel=0.02)
    assert x.server.output_tokens == sum(r.output_tokens for r in x.requests)
    assert x.server.foreign_running_max == 0


def wait_for_others(url, many):
    deadline = time.monotonic() + 5
    while counters.present(counters.read(httpx.get(f"{url}/metrics").text)) != many:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_other_peoples_requests_are_told_of(measured):
    busy = scenarios.vary(
        scenarios.load("a6000-tuned"),
        timing={"step_time_ms": 10.0, "noise": 0.0, "boot_noise": 0.0},
        traffic={"concurrency": 3, "output_tokens": 2000},
    )
    with SimulatedHost(busy) as host:
        wait_for_others(host.url, 3)
        with pytest.raises(Refused, match="3 other requests are running"):
            measured(host.url, preset())
        file = measured(host.url, preset(concurrency=(1,), tokens=96), busy_ok=True)
    assert file.rounds[0].server.foreign_running_max == 3
    assert any("requests of others ran beside 1 of ours" in n for n in file.notes)


def test_a_busy_server_is_still_diagnosed_but_no_baseline(tmp_path):
    busy = scenarios.vary(scenarios.load("a6000-tuned"), traffic={"concurrency": 3, "output_tokens": 4000})
    with SimulatedHost(busy) as host:
        wait_for_others(host.url, 3)
        store = ["--store", str(tmp_path)]
        seen = CliRunner().invoke(app, ["diagnose", host.url, "--format", "json", *store])
        assert "3 other requests are running" in str(json.loads(seen.stdout)["gaps"])
        refused = CliRunner().invoke(app, ["diagnose", host.url, "--load", *store])
        kept = CliRunner().invoke(app, ["baseline", "capture", host.url, "--name", "x", "--why", "test", *store])
    assert refused.exit_code == kept.exit_code == 2
    assert "3 other requests are running" in kept.stderr and not list(tmp_path.iterdir())


def test_a_server_that_accepts_and_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(asking, "ANSWER_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        began = time.monotonic()
        with pytest.raises(Refused, match=r"no answer to /v1/models within 1 s"):
            load.run(f"http://127.0.0.1:{mute.getsockname()[1]}", preset_name="brief")
        assert time.monotonic() - began < 2


def test_the_cap_ends_what_runs_on_the_server_too(measured):
    with Clockwork(ttft_s=0.02, step_s=0.05) as server:
        began = time.monotonic()
        file = measured(server.url, preset(seconds=2.0, concurrency=(2,), tokens=400, prompts=2))
        assert time.monotonic() - began < 3.5
        time.sleep(0.1)
        assert server.open_streams == 0 and server.gone == 2
    assert file.partial and [r.status for r in file.rounds[0].requests] == ["cancelled"] * 2


def interrupted(server, answers):
    """What a load says that gets Ctrl-C in the answer after so many."""
    program = (
        "import sys; from dflash_doctor.load import rounds; from dflash_doctor.load.battery import Preset\n"
        f"rounds.preset = lambda _: Preset('short', 20.0, 8, (1,), {WARM}, 16, (256,)); f = rounds.run(sys.argv[1])\n"
        "print(f.partial, [r.status for r in f.rounds[0].requests], f.notes)"
    )
    child = subprocess.Popen([sys.executable, "-c", program, server.url], stdout=-1, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 20
        while not (len(server.truth) == answers and server.open_streams) and time.monotonic() < deadline:
            time.sleep(0.002)
        assert server.open_streams == 1
        os.kill(child.pid, signal.SIGINT)
        said, _ = child.communicate(timeout=10)
    finally:
        child.kill()
    time.sleep(0.1)
    assert server.open_streams == 0 and server.gone == 1
    return said.decode().strip()


def test_ctrl_c_before_anything_was_measured_is_just_that():
    with Clockwork(ttft_s=0.02, step_s=0.1) as server:
        assert interrupted(server, 0).endswith("KeyboardInterrupt")


def test_ctrl_c_ends_the_requests_on_the_server_and_keeps_what_was_measured():
    with Clockwork(ttft_s=0.02, step_s=0.005) as server:
        said = interrupted(server, WARM + 2)
    assert said.startswith("True ['ok', 'ok', 'cancelled']")
    assert "stopped by Ctrl-C after 2 of 8 prompts, 1 at once" in said


def test_nothing_is_left_running_here(measured):
    threads = set(threading.enumerate())
    with Clockwork(ttft_s=0.01, step_s=0.002) as server:
        measured(server.url, preset(tokens=16))
    assert set(threading.enumerate()) <= threads
