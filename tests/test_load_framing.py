"""Where the body of an answer ends, in whatever pieces it comes."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.load.framing import Chunked, Sized, UntilClosed, unwrapped

EVENT = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
BODY = b"%x\r\n%s\r\n" % (len(EVENT), EVENT)


def fed(framing, *pieces):
    return b"".join(framing.feed(p) for p in pieces)


@given(
    st.lists(st.binary(min_size=1, max_size=60), max_size=8),
    st.lists(st.integers(0, 400), max_size=30),
    st.sampled_from([b"", b"x-took: 3\r\n", b"a: b\r\nc: d\r\n"]),
)
def test_chunks_may_be_cut_anywhere(parts, cuts, trailers):
    whole = b"".join(b"%x;note=1\r\n%s\r\n" % (len(p), p) for p in parts) + b"0\r\n" + trailers + b"\r\n"
    places = sorted({min(c, len(whole)) for c in cuts} | {0, len(whole)})
    framing = Chunked()
    assert fed(framing, *(whole[a:b] for a, b in pairwise(places))) == b"".join(parts)
    assert framing.ended


def test_an_answer_is_not_whole_before_its_last_chunk():
    framing = Chunked()
    assert fed(framing, BODY, BODY) == 2 * EVENT and not framing.ended
    assert fed(framing, b"0\r\n") == b"" and not framing.ended
    assert fed(framing, b"\r\n") == b"" and framing.ended
    assert fed(framing, BODY) == b"", "what comes after the end is not of this answer"


@pytest.mark.parametrize(
    "text", [b"zz\r\n", b"\r\n\r\n", b"-1\r\n", b"5\r\nabcdefgh\r\n", b"f" * 20 + b"\r\n", b"7" * 5000]
)
def test_what_is_no_chunk_is_refused(text):
    with pytest.raises(ValueError, match="a chunk of the answer"):
        fed(Chunked(), text, b"x" * 9)


def test_a_length_ends_a_body_and_nothing_but_the_connection_ends_the_other():
    framing = Sized(5)
    assert fed(framing, b"abc", b"defgh") == b"abcde" and framing.ended
    assert Sized(0).ended
    assert fed(UntilClosed(), b"abc", b"") == b"abc" and not UntilClosed().ended


def test_bytes_keep_the_time_of_their_piece():
    pieces = [(1.0, BODY[:9]), (2.0, BODY[9:]), (3.0, b"0\r\n\r\n")]
    assert list(unwrapped(pieces, Chunked())) == [(1.0, EVENT[:5]), (2.0, EVENT[5:])]


def test_a_drip_of_single_bytes_costs_no_more_than_its_length():
    began = time.process_time()
    framing = Chunked()
    whole = b"3d090\r\n" + b"x" * 250_000
    for i in range(len(whole)):
        framing.feed(whole[i : i + 1])
    assert time.process_time() - began < 2
