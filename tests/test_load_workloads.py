"""The frozen texts: what was compared yesterday is the same today."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter

import pytest

from dflash_doctor.load import preset, workload
from dflash_doctor.load.texts import log, words
from dflash_doctor.model import Refused

# a change here without a new `version` in the file makes runs look comparable that are not
FROZEN = {
    ("battery", 1): "866bc4cd94525457",
    ("copy", 1): "b41b7204d4b3ce81",
    ("random-words", 1): "1f7a8533611012e2",
    ("edit", 1): "dc0e572e4b39f890",
    ("cold", 1): "bd49a29496b6fa11",
    ("long", 1): "37e917127228f26b",
    ("chat", 1): "fa1f8a38c99a0a03",
}


def fingerprint(w):
    return hashlib.sha256(
        "\0".join("\0".join((p.id, *sum(p.before, ()), p.text)) for p in w.prompts).encode()
    ).hexdigest()[:16]


@pytest.mark.parametrize("name", [name for name, _ in FROZEN])
def test_texts_are_frozen_under_their_version(name):
    w = workload(name)
    assert fingerprint(w) == FROZEN[w.name, w.version]
    assert len({p.id for p in w.prompts}) == len(w.prompts)


def test_the_battery_is_mixed_and_its_first_prompts_are_too():
    kinds = [p.kind for p in workload("battery").prompts]
    assert Counter(kinds) == {"code": 8, "maths": 8, "prose": 6, "other": 4, "json": 4, "summary": 2}
    assert Counter(kinds[:8]) == {"code": 3, "maths": 2, "prose": 1, "other": 1, "json": 1}


def test_a_copied_text_is_longer_than_any_answer():
    longest = max(preset("thorough").tokens)
    assert all(len(p.text.split()) > longest for p in workload("copy").prompts)


def test_a_cold_prompt_comes_again_word_for_word_and_a_chat_has_its_earlier_turns():
    once, again = workload("cold").prompts
    assert once.text == again.text and once.shares == again.shares != "" and once.tokens == 8
    assert 18_000 < len(once.text) / 4 < 22_000
    first, second, third = workload("chat").prompts
    assert [len(p.before) for p in (first, second, third)] == [0, 2, 4]
    assert second.before == third.before[:2] and second.before[0] == ("user", first.text)
    assert third.before[2] == ("user", second.text)


def test_a_file_to_edit_is_python_of_about_three_thousand_tokens():
    for p in workload("edit").prompts:
        file = p.text.partition("\n\n")[2]
        ast.parse(file)
        assert file.count("limit") > 60 and 2400 < len(file) / 4 < 3600


def test_made_texts_differ_by_their_seed_only():
    assert log(1, 12) == log(1, 12) != log(2, 12) and words(1, 9) == words(1, 9) != words(2, 9)
    assert log(1, 12).count("\n\n") == 1 and "{" not in log(3, 500)


@pytest.mark.parametrize(("name", "seconds"), [("brief", 15), ("quick", 30), ("standard", 120), ("thorough", 420)])
def test_presets_say_what_they_take(name, seconds):
    p = preset(name)
    assert p.seconds == seconds and list(p.tokens) == sorted(p.tokens, reverse=True)
    assert len(p.turns()[0].workload.prompts) == p.prompts and p.most_warmups >= p.warmups


def test_the_thorough_preset_brackets_the_battery():
    assert [str(t) for t in preset("thorough").turns()] == [
        "1 at once", "2 at once", "3 at once", "4 at once", "copy, 1 at once", "random-words, 1 at once",
        "edit, 1 at once", "chat, 1 at once", "cold, 1 at once", "long, 1 at once", "the first prompts again",
    ]  # fmt: skip


def test_an_unknown_preset_is_refused_with_those_there_are():
    with pytest.raises(Refused, match="--preset heavy is not known; it is one of quick, standard, thorough, brief"):
        preset("heavy")
