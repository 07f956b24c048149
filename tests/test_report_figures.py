from __future__ import annotations

import pytest

from dflash_doctor.metrics import METRICS
from dflash_doctor.report import figures


@pytest.mark.parametrize(
    ("metric", "number", "shown"),
    [
        ("output_tok_s", 17.7, "17.7 tok/s"),
        ("output_tok_s", 17.7123, "17.7 tok/s"),
        ("prefill_tok_s", 2154.0, "2,154 tok/s"),
        ("kv_tokens", 1270042.0, "1,270,042 tokens"),
        ("accept_length", 3.2, "3.20 tokens"),
        ("accept_rate", 0.011, "1.1%"),
        ("accept_rate", 0.8, "80%"),
        ("step_time_ms", 66.149, "66.1 ms"),
        ("ttft_ms", 0.0412, "0.0412 ms"),
        ("preemptions", 12.0, "12"),
        ("running", 2.5, "2.50"),
        ("output_tok_s", 0.0, "0 tok/s"),
        ("output_tok_s", float("nan"), "no number"),
        ("output_tok_s", float("inf"), "no number"),
        ("a_metric_of_tomorrow", 1.5, "1.50"),
    ],
)
def test_a_value_has_three_digits_and_its_unit(metric, number, shown):
    assert figures.value(metric, number) == shown


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("number", [-1.0, 0.0, 1e-30, 1.0, 1e30, float("-inf")])
def test_no_value_is_too_odd_to_show(metric, number):
    assert figures.value(metric, number)


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (0.2408, "4.2x slower"),
        (0.5, "2.0x slower"),
        (0.62, "38% slower"),
        (0.977, "2.3% slower"),
        (0.999, "as fast"),
        (1.0, "as fast"),
        (1.29, "29% faster"),
        (3.27, "3.3x faster"),
        (0.05, "20x slower"),
        (0.0, "at a standstill"),
        (float("inf"), "far faster"),
        (float("nan"), "not known how much"),
    ],
)
def test_a_factor_is_said_in_words(factor, words):
    assert figures.pace(factor) == words


def test_factors_of_a_product_keep_two_digits():
    assert [figures.times(x) for x in (0.2408, 0.0123, 1.0, 11.7)] == ["0.24x", "0.012x", "1.00x", "12x"]


def test_counted_things_agree_with_their_number():
    assert [figures.counted(n, "gap") for n in (0, 1, 2)] == ["0 gaps", "1 gap", "2 gaps"]
