"""Which of the engine's own windows show serving as it is."""

from __future__ import annotations

from tests.logtext import read, stats, values, vllm_line

START = vllm_line("vLLM API server version 0.20.1", "11-23 09:00:00")


def steady(text: str) -> list[bool]:
    return [i.steady for i in read(text).intervals]


def test_windows_that_agree_are_steady():
    assert steady("".join(stats(50.0 + s / 10, 1, f"09:10:{s}0") for s in range(4))) == [True] * 4


def test_the_first_window_after_the_start_is_believed_only_with_a_witness():
    assert steady(START + stats(30.0, 1, "09:10:00") + stats(50.0, 1, "09:10:10")) == [False, True]
    assert steady(START + stats(49.0, 1, "09:10:00") + stats(50.0, 1, "09:10:10")) == [True, True]
    assert steady(START + stats(30.0, 1, "09:10:00")) == [False]


def test_a_lone_window_of_a_log_that_shows_no_start_is_taken():
    assert steady(stats(50.0, 1, "09:10:00")) == [True]


def test_idle_windows_and_those_in_which_the_load_ended_are_not():
    text = stats(50.0, 1, "09:10:00") + stats(12.0, 0, "09:10:10") + stats(0.0, 0, "09:10:20")
    assert steady(text) == [True, False, False]


def test_a_missing_window_was_an_idle_one():
    text = stats(50.0, 1, "09:10:00") + stats(50.0, 1, "09:10:10") + stats(20.0, 1, "09:30:00")
    assert steady(text) == [True, True, False]


def test_a_change_of_the_load_is_not_steady():
    text = "".join(stats(g, n, f"09:10:{i}0") for i, (g, n) in enumerate([(50.0, 1), (50.0, 1), (90.0, 4), (150.0, 4)]))
    assert steady(text) == [True, True, False, True]


def test_windows_full_of_prefill_are_used_only_where_there_is_nothing_better():
    mixed = stats(20.0, 8, "09:10:00", prompt=900.0) + stats(21.0, 8, "09:10:10", prompt=900.0)
    assert steady(mixed) == [False, False]
    assert values(read(mixed), "output_tok_s", 8.0) == [20.0, 21.0]
    better = mixed + stats(80.0, 8, "09:10:20") + stats(80.0, 8, "09:10:30")
    assert values(read(better), "output_tok_s", 8.0) == [80.0, 80.0]


def test_the_step_time_of_mixed_windows_is_not_known():
    assert values(read(stats(20.0, 8, "09:10:00", prompt=900.0)), "step_time_ms") == []


def test_the_step_time_needs_the_acceptance_where_tokens_are_drafted():
    drafting = vllm_line(
        "Initializing a V1 LLM engine (v0.20.1) with config: model='m', "
        "speculative_config=SpeculativeConfig(method='mtp', model='m', num_spec_tokens=3)"
    )
    assert values(read(drafting + stats(50.0, 1, "09:10:00") + stats(50.0, 1, "09:10:10")), "step_time_ms") == []
    assert values(read(stats(50.0, 2, "09:10:00")), "step_time_ms") == [40.0]


def test_acceptance_finds_its_window_among_those_of_other_engines():
    spec = vllm_line(
        "SpecDecoding metrics: Mean acceptance length: {}, Accepted throughput: 1.0 tokens/s, Drafted throughput: "
        "1.0 tokens/s, Accepted: 10 tokens, Drafted: 20 tokens, Per-position acceptance rate: 0.5, Avg Draft "
        "acceptance rate: 50.0%",
        "11-23 09:10:00",
    )
    text = (
        stats(50.0, 1, "09:10:00", engine="000")
        + spec.format("2.10")
        + stats(60.0, 1, "09:10:00", engine="001")
        + spec.format("2.20")
    )
    assert [(i.engine, i.accept_length) for i in read(text).intervals] == [("0", 2.1), ("1", 2.2)]
