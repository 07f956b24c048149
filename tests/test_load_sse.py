"""Events from bytes as a network delivers them: cut anywhere, ended in any way."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.load.sse import events

# what a vLLM server writes between a question and its answer
STREAM = (
    b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
    b": keep-alive\n\n"
    b'data: {"choices":[{"index":0,"delta":{"content":"Gr\xc3\xbc\xc3\x9fe \xf0\x9f\x9a\x80"}}]}\n\n'
    b"data: [DONE]\n\n"
)
DATA = [e.removeprefix(b"data: ") for e in STREAM.split(b"\n\n") if e.startswith(b"data")]


def heard(*chunks):
    return list(events(enumerate(chunks)))


def test_each_event_has_the_time_of_the_chunk_that_completed_it():
    assert heard(b"data: a\n\n", b"data: b", b"\n", b"\ndata: c\n\n") == [(0, b"a"), (3, b"b"), (3, b"c")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_may_end_in_any_of_the_three_ways(end):
    assert [d for _, d in heard(STREAM.replace(b"\n", end))] == DATA


@given(st.lists(st.integers(0, len(STREAM) * 2), max_size=12), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_where_the_network_cuts_changes_nothing(cuts, end):
    stream = STREAM.replace(b"\n", end)
    places = sorted({0, len(stream), *(c for c in cuts if c < len(stream))})
    pieces = [stream[a:b] for a, b in pairwise(places)]
    assert [d for _, d in heard(*pieces)] == DATA


def test_an_event_is_not_stamped_late_for_the_sake_of_a_line_feed_that_may_follow():
    assert heard(b"data: a\r\n\r", b"\ndata: b\r\r") == [(0, b"a"), (1, b"b")]


def test_comments_keep_alives_and_other_fields_carry_nothing():
    assert heard(b": ping\n\n\n\nevent: token\nid: 7\nretry: 3000\ndata: x\n\n: ping\n\n") == [(0, b"x")]


def test_the_lines_of_one_event_are_joined():
    assert heard(b"data: {\ndata:  1\ndata:}\n\n") == [(0, b"{\n 1\n}")]


def test_a_server_that_closes_without_the_last_empty_line_is_still_heard():
    assert heard(b"data: a\n\n", b"data: [DONE]") == [(0, b"a"), (1, b"[DONE]")]
    assert heard(b"data: a\n") == [(0, b"a")]


def test_nothing_is_nothing():
    assert heard() == heard(b"") == heard(b"\r\n", b"", b"\r") == heard(b"<html><body>busy</body></html>") == []


def test_a_line_that_never_ends_costs_no_more_than_its_length():
    began = time.process_time()
    assert len(heard(b"data: ", *[b"x" * 100] * 40_000)[0][1]) == 4_000_000
    assert time.process_time() - began < 1
