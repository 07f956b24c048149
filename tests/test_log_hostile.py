"""Any text at all gives facts or a clear refusal, in time that grows with its size only."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflash_doctor.model import Facts, Unreadable
from dflash_doctor.parsers import logs
from tests.logtext import log, read, stats, vllm_line

WHOLE = log("v032_tp2")
PIECES = [line for name in ("v032_tp2", "sglang0523_base", "v0201_base_eager") for line in log(name).splitlines()]


@pytest.mark.parametrize("text", ["", "\n\n", "\x00\x00\x00", "\ufeff \t\n"])
def test_an_empty_log_is_unreadable(text):
    with pytest.raises(Unreadable, match="empty"):
        read(text)


def test_a_binary_file_is_unreadable():
    noise = random.Random(1).randbytes(4000).decode("utf-8", errors="replace")
    with pytest.raises(Unreadable, match="binary"):
        read(noise)


def test_a_text_that_says_nothing_gives_a_gap_not_health():
    facts = read("hello\nworld\n")
    assert (facts.engine, facts.served, facts.signals) == (None, None, ())
    assert "nothing in this log is known" in facts.gaps[0].why


def outcome(text: str) -> Facts | str:
    try:
        return logs.parse(text, "server.log")
    except Unreadable as e:
        return str(e)


@given(st.text(max_size=400))
@settings(max_examples=150, deadline=None)
def test_any_text_is_survived(text):
    assert outcome(text)


@given(st.lists(st.sampled_from(PIECES), max_size=25), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_any_shuffle_of_real_lines_is_survived(lines, rng):
    cut = [line[: rng.randrange(len(line) + 1)] if rng.random() < 0.3 else line for line in lines]
    assert outcome(rng.choice(("\n", "\r\n", "\r", " ")).join(cut))


@given(st.integers(0, len(WHOLE)))
@settings(max_examples=40, deadline=None)
def test_a_log_cut_anywhere_is_survived(at):
    assert outcome(WHOLE[:at])
    assert outcome(WHOLE[at:])


HOSTILE = {
    "one long line": "x" * 1_000_000,
    "open brackets": "server_args=ServerArgs(a=" + "[" * 400_000,
    "braces": vllm_line("non-default args: {" + "{" * 400_000),
    "quotes": "server_args={'a': '" + "\\'" * 300_000,
    "escapes": "\x1b[" * 400_000,
    "carriage returns": "a\r" * 150_000,
    "a stamp again and again": "INFO 11-23 09:14:07 [a.py:1] " * 30_000,
    "processes": "(Worker pid=1) " * 60_000,
    "json": '{"log": ' * 100_000,
    "commas": "Using [" + "'a', " * 200_000 + "] all-reduce backends (in dispatch order) for group 'tp:0'",
    "numbers": "SpecDecoding metrics: Per-position acceptance rate: " + "0.1, " * 200_000,
    "spaces": "INFO" + " " * 800_000 + "x",
    "dots": "2026-11-23T09:14:07Z " + "a." * 400_000,
    "tracebacks": "Traceback (most recent call last):\n" * 20_000,
    "starts": vllm_line("vLLM API server version 0.11.0") * 5_000,
    "different warnings": "".join(f"WARNING:root:w{'abcdefghij'[i % 10] * (i % 200)}\n" for i in range(20_000)),
    "unfinished docker lines": '{"log":"a","stream":"stderr","time":"2026-11-23T09:14:07Z"}\n' * 20_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_megabyte_takes_seconds_at_most(name):
    begun = time.perf_counter()
    outcome(vllm_line("vLLM API server version 0.11.0") + HOSTILE[name])
    assert time.perf_counter() - begun < 5


def test_a_log_of_usual_size_is_read_at_once():
    read(WHOLE)  # the patterns are loaded
    begun = time.perf_counter()
    read(WHOLE)
    assert time.perf_counter() - begun < 0.3


def test_a_large_log_says_the_same_as_its_lines_one_by_one(monkeypatch):
    noise = '(APIServer pid=1) INFO:     10.0.0.7:51122 - "GET /health HTTP/1.1" 200 OK\n' * 2000
    text = WHOLE + noise + "".join(stats(50.0, 2, f"10:{m:02d}:{s}0") for m in range(10) for s in range(6)) + noise
    slow = logs.parse(text, "server.log")
    monkeypatch.setattr(logs, "SMALL", 1000)
    assert logs.parse(text, "server.log") == slow
