"""A log too large to read line by line says the same as if every line had been read."""

from __future__ import annotations

import io
import re
import tracemalloc

import numpy as np
import pytest

from dflash_doctor.model import Facts
from dflash_doctor.parsers import logs
from dflash_doctor.parsers.logs import finder, held, large
from tests.bench.make_log import made
from tests.logtext import log, one, sglang_line, stats, vllm_line

GET = '(APIServer pid=1) INFO:     10.0.0.7:51122 - "GET /health HTTP/1.1" 200 OK\n'
POST = '(APIServer pid=1) INFO:     10.0.0.7:51122 - "POST /v1/completions HTTP/1.1" 200 OK\n'
START = log("v032_tp2")[: log("v032_tp2").index("Avg prompt")].rpartition("\n")[0] + "\n"


def read_large(text: str) -> Facts:
    return logs.parse_large(io.BytesIO(text.encode()), "server.log")


def speeds(facts: Facts) -> list[float]:
    return [s.value for s in facts.samples if s.metric == "output_tok_s"]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_busy_servers_log_says_the_same_as_its_lines_one_by_one(engine):
    text = b"".join(made(engine, 1_000_000, seed=3)).decode()
    every, few = logs.parse(text, "server.log"), read_large(text)
    assert few.intervals == every.intervals
    assert (few.settings, few.samples, few.served) == (every.settings, every.samples, every.served)
    assert few.signals == every.signals
    assert [e.settings for e in few.earlier] == [e.settings for e in every.earlier]


def test_figures_that_are_left_out_change_no_quantile_and_are_counted():
    # slower from day to day, half as fast at night
    speed = [(60.0 - m / 1000) * (2 if m // 720 % 2 else 1) for m in range(20_000)]
    text = START + "".join(stats(round(s, 1), 2, f"{m // 60 % 24:02d}:{m % 60:02d}:00") for m, s in enumerate(speed))
    facts = read_large(text)
    assert one(facts, "stats.periodic").count == len(speed)
    assert held.FIGURES / 2 - held.RUN <= len(facts.intervals) <= held.FIGURES + held.RUN
    for share in (0.1, 0.3, 0.7, 0.9):
        assert np.quantile(speeds(facts), share) == pytest.approx(np.quantile(speed, share), rel=0.1)


def test_a_warning_that_repeats_all_day_has_its_count_and_its_first_and_last_line():
    warning = vllm_line("Tokenizing a prompt took 412 ms in request cmpl-00ab{:02x}-0", level="WARNING")
    body = "".join(warning.format(i % 256) + GET for i in range(5_000))
    signal = next(s for s in read_large(START + body).signals if s.template.startswith("Tokenizing"))
    first = START.count("\n") + 1
    assert (signal.count, signal.evidence.line, signal.last_line) == (5_000, first, first + 2 * 4_999)


def test_settings_are_those_of_the_last_start_and_earlier_starts_stay_apart():
    asked = "non-default args: {{'model': '/m', 'max_num_seqs': {}}}"
    text = "".join(
        vllm_line("vLLM API server version 0.11.0", at)
        + vllm_line(asked.format(n), at)
        + vllm_line("Application startup complete.", at)
        + POST * 3
        + GET * 200
        for n in range(1, 101)
        for at in (f"11-23 {n // 60:02d}:{n % 60:02d}:00",)
    )
    facts = read_large(text)
    seqs = [next(s.value for s in f.settings if s.key == "sched.max_seqs") for f in (*facts.earlier, facts)]
    assert seqs == list(range(101 - len(seqs), 101)) and len(seqs) > 10
    assert "server starts were left out" in facts.gaps[0].why


def test_a_server_that_died_after_a_day_of_requests_has_not_served_to_its_end():
    ready = vllm_line("Application startup complete.")
    dead = vllm_line("AsyncLLM output_handler failed.", level="ERROR", who="APIServer pid=1")
    died = START + ready + POST * 5_000 + dead
    assert read_large(died).served is logs.parse(died, "").served
    assert read_large(died + POST * 5_000).served is logs.parse(died + POST, "").served is True


def test_a_traceback_in_a_large_log_is_read_to_its_exception():
    frames = "".join(f'  File "/opt/x.py", line {n}, in f{n}\n    y = f(x)\n' for n in range(20))
    text = START + GET * 3_000 + "Traceback (most recent call last):\n" + frames + "zmq.Again: no answer came\n" + GET
    assert [s.evidence.text for s in read_large(text).signals if s.level == "ERROR"] == ["zmq.Again: no answer came"]


def test_warnings_of_ever_other_words_are_counted_and_their_number_is_told():
    words = ("".join(chr(ord("g") + int(d)) for d in f"{n:06d}") for n in range(20_000))
    facts = read_large(START + "".join(f"WARNING:root:{word}\n" for word in words))
    assert len(facts.signals) < held.KEYS + 200
    assert re.search("180.. warnings, each of other words, were counted only", facts.gaps[0].why)


def test_sglangs_warnings_without_a_level_are_found_by_their_words():
    odd = sglang_line("The frobnicator falls back to slow") + sglang_line("all is well") * 2_000
    text = log("sglang0523_base").replace("\n", "\n" + odd, 1)
    assert "The frobnicator falls back to slow" in [
        s.template for s in read_large(text).signals if s.level == "WARNING"
    ]


def test_memory_does_not_grow_with_the_log(monkeypatch):
    monkeypatch.setattr(held, "FIGURES", 512)
    serving = (stats(50.0, 2, "10:00:00") + (GET + POST) * 15).encode() * 300

    def peak(times: int) -> int:
        tracemalloc.start()
        logs.parse_large(_Endless(iter([serving] * times)), "server.log")
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    peak(1)
    assert peak(12) < peak(6) * 1.2


class _Endless(io.RawIOBase):
    def __init__(self, blocks):
        self.blocks, self.rest = blocks, b""

    def readable(self):
        return True

    def readinto(self, buffer):
        self.rest = self.rest or next(self.blocks, b"")
        part, self.rest = self.rest[: len(buffer)], self.rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


@pytest.mark.parametrize("text", [b"", b"a", b"a\n", b"\n\na\n", b"x" * 9_000_000 + b"\nend", b"a\n" * 700_000])
def test_blocks_are_the_file_in_whole_lines(text):
    got = b"".join(large.blocks(io.BytesIO(text)))
    assert all(block.endswith(b"\n") for block in large.blocks(io.BytesIO(text)))
    if len(max(text.split(b"\n"), default=b"")) < large.LONGEST_LINE:
        assert got == text + (b"" if text.endswith(b"\n") or not text else b"\n")
    else:
        assert got.startswith(b"x" * large.BLOCK) and got.endswith(b"\nend\n") and len(got) <= large.LONGEST_LINE + 6


def test_without_hyperscan_the_same_lines_are_found():
    texts = [b"Decode batch", b"batch", b"WARN", b'" 5', b"rror: "]
    block = b"".join(made("sglang", 200_000, seed=2)).replace(b"gen", b"WARNING: error: ")
    block = block[: block.rindex(b"\n") + 1]
    fast, slow = finder.Finder(texts), finder.Finder(texts)
    slow._matches = finder._one_by_one(texts)
    assert slow.find(block).lines.tolist() == fast.find(block).lines.tolist() != []


def test_a_figure_behind_a_hole_is_steady_only_when_its_neighbour_says_the_same():
    def decode(speed: float, second: int) -> str:
        stamp = f"2026-11-23 {second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        return sglang_line(
            f"Decode batch. #running-req: 2, #token: 90, gen throughput (token/s): {speed}, #queue-req: 0", stamp
        )

    day = [
        *(decode(50.0, s) for s in range(0, 100, 10)),
        *(decode(9.0 if s == 900 else 50.0, s) for s in range(900, 990, 10)),
    ]
    assert {i.generation_tok_s for i in logs.parse("".join(day), "").intervals if i.steady} == {50.0}
