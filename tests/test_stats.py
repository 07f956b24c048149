"""What the one opinion about size and chance says."""

from __future__ import annotations

import random

import pytest

from dflash_doctor.model import Sample
from dflash_doctor.stats import judge, verdict_of


def lone(metric, value):
    return [Sample(metric, value)]


def by_prompt(values, boot=None):
    return [Sample("tpot_ms", v, prompt=f"p{i}", boot=boot) for i, v in enumerate(values)]


def test_a_lone_value_is_worse_only_beyond_any_noise():
    assert judge("output_tok_s", lone("output_tok_s", 73.5), lone("output_tok_s", 17.7)).verdict == "worse"
    assert judge("output_tok_s", lone("output_tok_s", 100.0), lone("output_tok_s", 85.0)).verdict == "unsure"
    assert judge("output_tok_s", lone("output_tok_s", 100.0), lone("output_tok_s", 98.0)).verdict == "same"


def test_a_lone_value_says_so():
    assert "one value against one" in judge("output_tok_s", lone("output_tok_s", 73.5), lone("output_tok_s", 17.7)).note


def test_a_time_that_grew_is_worse_and_its_factor_is_below_one():
    judged = judge("ttft_ms", lone("ttft_ms", 588.0), lone("ttft_ms", 9468.0))
    assert judged.verdict == "worse"
    assert judged.factor == pytest.approx(588 / 9468)


def test_prompts_are_paired_so_their_own_spread_does_not_hide_a_change():
    rng = random.Random(1)
    was = [10 * 2 ** rng.uniform(-1, 1) for _ in range(16)]
    now = [x / 0.7 * rng.gauss(1, 0.02) for x in was]
    judged = judge("tpot_ms", by_prompt(was), by_prompt(now))
    assert judged.paired
    assert judged.verdict == "worse"
    assert judged.low < 0.7 < judged.high


def test_within_one_boot_there_is_no_boot_noise():
    was = [10.0 + 0.1 * i for i in range(16)]
    now = [x * (1.06 + 0.002 * (i % 3)) for i, x in enumerate(was)]
    assert judge("tpot_ms", by_prompt(was, "b1"), by_prompt(now, "b1")).verdict == "worse"
    assert judge("tpot_ms", by_prompt(was, "b1"), by_prompt(now, "b2")).verdict == "unsure"


def test_a_value_against_itself_is_the_same():
    same = by_prompt([10.0 + i for i in range(8)], "b1")
    assert judge("tpot_ms", same, same).verdict == "same"


def test_a_number_without_a_better_side_is_never_worse():
    assert judge("kv_usage", [Sample("kv_usage", 0.1)], [Sample("kv_usage", 0.9)]).verdict == "same"


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(0.96, 0.99, "minor"), (0.90, 0.96, "worse"), (0.96, 1.01, "same"), (0.90, 1.05, "unsure"), (1.04, 1.2, "better")],
)
def test_the_words_for_an_interval(low, high, word):
    assert verdict_of(low, high) == word


def test_zero_is_handled_as_a_value():
    assert judge("preemptions", lone("preemptions", 0.0), lone("preemptions", 0.0)).verdict == "same"
    assert judge("preemptions", lone("preemptions", 0.0), lone("preemptions", 37.0)).verdict == "worse"


def test_several_starts_a_side_measure_their_own_noise():
    def starts(*values):
        return [Sample("output_tok_s", v, boot=str(i)) for i, v in enumerate(values)]

    assert judge("output_tok_s", starts(469.7, 472.1, 475.4), starts(461.2, 464.1, 464.9)).verdict == "minor"
    assert judge("output_tok_s", starts(470.0, 440.0, 475.4), starts(461.2, 474.1, 448.9)).verdict == "unsure"


def test_numbers_of_starts_are_no_names_of_starts():
    was = [Sample("tpot_ms", 10.0 + i, prompt=f"p{i}", boot="1") for i in range(8)]
    now = [Sample("tpot_ms", 1.05 * (10.0 + i), prompt=f"p{i}", boot="1") for i in range(8)]
    assert judge("tpot_ms", was, now).verdict == "unsure"


def test_a_chance_too_small_to_matter_is_printed_without_its_exponent():
    judged = judge("tpot_ms", by_prompt([10 + i / 100 for i in range(8)]), by_prompt([40 + i / 30 for i in range(8)]))
    assert judged.note == "p<0.001 n=8+8 paired by prompt"
