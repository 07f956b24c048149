"""The known lines as data: each form reads its own sample, and is found by the literals derived from it."""

from __future__ import annotations

import re

import pytest
import yaml

from dflash_doctor import paths
from dflash_doctor.causes import causes
from dflash_doctor.parsers.logs import literals, prefix, signals, wrapping
from dflash_doctor.parsers.logs.literals import Literals
from dflash_doctor.parsers.logs.templates import template
from tests.logtext import read, sglang_line, vllm_line

FORMS = [(engine, form) for engine in signals.FILES for form in signals.book(engine).forms]


def bodies(example: str) -> list[str]:
    lines = wrapping.lines(wrapping.Raw(*row) for row in enumerate(example.split("\n"), 1))
    return [r.body for line in lines for r in prefix.records(line)]


def test_every_form_reads_its_sample():
    for engine, form in FORMS:
        found = [m.form.id for b in bodies(form.example) if (m := signals.book(engine).match(b))]
        # an engine's own name for a failure comes before the common one
        failure = form.id.startswith("err.") and any(i.startswith("err.") for i in found)
        assert form.id in found or failure, (form.pattern, found)


def test_the_literals_of_a_form_are_in_its_sample():
    for _, form in FORMS:
        read_by_it = [b for b in bodies(form.example) if re.search(form.pattern, b)]
        assert read_by_it, form.pattern
        for body in read_by_it:
            assert not form.literals.starts or body.startswith(form.literals.starts), form.pattern
            assert not form.literals.needs or any(n in body for n in form.literals.needs), form.pattern


def test_every_form_has_literals_but_tables():
    without = {f.id for _, f in FORMS if f.literals == Literals()}
    assert without == {"graph.runtime_stats"}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"^Using FlashAttention version (?P<fa>\d)$", ("Using FlashAttention version ",)),
        (r"^(?:Upcasting|Downcasting) (?P<a>\S+) to", ("Upcasting ", "Downcasting ")),
        (r"^Capture (?:cuda|cpu) graph", ("Capture cuda graph", "Capture cpu graph")),
        (r"^colou?r is", ("color is", "colour is")),
        (r"^abc(?:d|e)?f", ("abcf", "abcdf", "abcef")),
        (r"^abc(?:x\d+)?y", ("abc",)),
        (r"^abc|^xyz", ("abc", "xyz")),
        (r"^a\d", ()),
        (r"abc", ()),
    ],
)
def test_an_anchored_pattern_begins_with_one_of_a_few_texts(pattern, expected):
    assert set(literals.of(pattern).starts) == set(expected)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"^(?P<arch>\S+) has no vLLM implementation", (" has no vLLM implementation",)),
        (r"(?:torch\.OutOfMemoryError|CUDA out of memory)", ("torch.OutOfMemoryError", "CUDA out of memory")),
        (r"\d+ (?:abc)* defg", (" defg",)),
        (r"(?:abcd)?ef", ()),
        (r"(?i)warning: bad", ()),
        (r"\w+", ()),
    ],
)
def test_any_pattern_needs_one_of_a_few_texts(pattern, expected):
    assert set(literals.of(pattern).needs) == set(expected)


def test_topics_are_known_and_lead_to_causes():
    with paths.data("topics.yaml").open(encoding="utf-8") as f:
        topics = yaml.safe_load(f)["topics"]
    assert {t for _, form in FORMS for t in form.topics} <= set(topics)
    assert {c for t in topics.values() for c in t["causes"]} <= set(causes())


def test_no_form_is_slow_on_any_line():
    # the limit of events.LONGEST makes a quadratic pattern harmless; a cubic one would show here
    import time

    for _, form in FORMS:
        regex = re.compile(form.pattern)
        text = (form.literals.starts or form.literals.needs or ("",))[0]
        for hostile in (text + " a" * 1500, (text + " ") * 300, text + "1.1" * 500, ("a. " + text) * 200):
            begun = time.perf_counter()
            regex.search(hostile[:1500] + "\x00")
            assert time.perf_counter() - begun < 0.25, form.pattern


# -- templates and unknown lines --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("took 3.41 s, 12 of 35", "took 10 s, 9 of 35"),
        ("cannot open /a/b.json", "cannot open ~/c.json"),
        ("request cmpl-9796225a7a768711-0 failed", "request cmpl-1 failed"),
        ("response resp_9796225a7a768711b failed", "response resp_a796225d7a768711c failed"),
        ("sizes [1, 2, 4]", "sizes [8, 16]"),
        ("at 0x7f854f74b548", "at 0x7f03f1f3f508"),
        ("weight layers.0.mlp.down_proj.weight", "weight lm_head.weight"),
        ("see https://a.b/c", "see https://d.e"),
        ("rank0 is late", "rank7 is late"),
        ("bar: 80%|████  | 28/35 [00:01<00:02]", "bar: 100%|█████| 35/35 [00:03<00:00]"),
    ],
)
def test_the_same_message_has_the_same_template(a, b):
    assert template(a) == template(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [("FP8 is emulated", "FP4 is emulated"), ("Qwen3ForCausalLM", "Qwen2ForCausalLM"), ("mode FULL", "mode PIECEWISE")],
)
def test_words_with_digits_are_words(a, b):
    assert template(a) != template(b)


def test_unknown_warnings_are_merged_by_what_they_say():
    facts = read("".join(vllm_line(f"The frobnicator of layer {i} is off", level="WARNING") for i in range(5)))
    (signal,) = facts.signals
    assert (signal.id, signal.level, signal.count, signal.last_line) == ("unknown", "WARNING", 5, 5)
    assert signal.template == "The frobnicator of layer # is off"


def test_unknown_information_is_not_kept():
    assert read(vllm_line("The frobnicator is fine")).signals == ()


def test_an_engine_without_level_names_warns_by_its_words():
    facts = read(sglang_line("The frobnicator is not supported on sm120; falling back to slow path"))
    assert [(s.id, s.level) for s in facts.signals] == [("unknown", "WARNING")]


def test_developers_warnings_of_libraries_are_not_kept():
    text = "/opt/venv/x.py:3: FutureWarning: y is deprecated\n/opt/venv/x.py:4: UserWarning: z is slow here\n"
    assert [s.level for s in read(vllm_line("vLLM is using nccl==2.1") + text).signals] == ["INFO", "WARNING"]
