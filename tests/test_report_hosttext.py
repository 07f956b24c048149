from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_stories import FLAG_LINE, SPEC_LINE

from dflash_doctor.report.hosttext import LONGEST, excerpt, pattern, plain, telling


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[1;31mERROR\x1b[0m out of memory", "ERROR out of memory"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never ends", "0;never ends"),
        ("\x9b31mred", "red"),
        ("a\tb\r\nc", "a b  c"),
        ("abc\x08\x08\x08xyz", r"abc\x08\x08\x08xyz"),
        ("user\u202etxt.exe", r"user\u202etxt.exe"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("a\u2028b", "a b"),
        ("half \ud83d", r"half \ud83d"),
        ("тест 測試 █", "тест 測試 █"),
    ],
)
def test_nothing_but_printable_text_is_left(written, shown):
    assert plain(written) == shown


def test_marks_piled_on_a_letter_do_not_smear_over_other_lines():
    assert len(plain("e" + "\u0301" * 500)) == 4
    assert plain("e\u0301") == "e\u0301"


@given(st.text())
@settings(max_examples=200, deadline=None)
def test_no_text_gets_through_with_a_control_in_it(text):
    shown = plain(text)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    shown.encode("utf-8")


@pytest.mark.parametrize("nasty", ["\x1b]", "\x9d", "\x1b[", "\x1b[0;", "\u0301", "\x00", "a.b-c_d "])
def test_long_nasty_lines_take_no_time(nasty):
    begin = time.process_time()
    text = nasty * (2_000_000 // len(nasty))
    assert len(excerpt(text, 100, telling(text[:5000]))) <= 100
    assert time.process_time() - begin < 2


def test_the_telling_part_of_a_long_line_is_shown():
    words = telling("the drafter guesses badly (1.17 tokens per step)")
    assert "Mean acceptance length: 1.17" in excerpt(SPEC_LINE, 80, words)
    assert "dflash" in excerpt(FLAG_LINE, 80, telling("speculation runs by dflash"))


def test_a_short_line_is_shown_whole():
    assert excerpt("INFO it is up", 80, telling("nothing")) == "INFO it is up"


def test_without_a_clue_the_message_is_shown_and_its_prefix_left_out():
    shown = excerpt(f"(Worker pid=1) WARNING 05-06 10:02:20 [model.py:1801] Casting {'x' * 200}", 60, {})
    assert shown.startswith("…Casting") and shown.endswith("…") and len(shown) <= 60


@given(st.text(alphabet="ab1. ]", max_size=300), st.integers(10, 100))
@settings(max_examples=200, deadline=None)
def test_an_excerpt_never_takes_more_room_than_it_has(text, room):
    assert len(excerpt(text, room, telling("ab1 b1 aa"))) <= room


def test_a_line_no_person_reads_is_cut():
    assert len(plain("x" * (LONGEST + 5))) == LONGEST + 1


def test_words_are_found_whole():
    found = pattern(telling("runs at 1.17"))
    assert found is not None
    assert found.search("length: 1.17,") and not found.search("length: 21.17,")
