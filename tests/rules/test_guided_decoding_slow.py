"""guided_decoding.slow: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import card, found, snapshot, speed


def grammar(backend, utilization=95):
    return snapshot(settings={"grammar.backend": backend}, readings=[card(utilization_gpu=utilization)])


def test_another_grammar_backend_under_a_gpu_that_waits_is_named():
    finding = found("guided_decoding.slow", grammar("outlines", 20), grammar("xgrammar"))
    assert finding.summary == "grammar.backend: xgrammar -> outlines (20 % busy)"
    assert finding.confidence > 0.6


def test_the_same_backend_is_no_change():
    assert found("guided_decoding.slow", grammar("xgrammar"), grammar("xgrammar")) is None


def test_a_slow_grammar_backend_that_keeps_awake_cards_waiting_is_named_though_nobody_says_there_was_load():
    def forms(workload, busy, clock=1410):
        reading = card(load=None, clocks_sm=clock, clocks_max_sm=1410, utilization_gpu=busy)
        backend = {"grammar.backend": "outlines"}
        return snapshot(settings=backend, samples=[speed(31.0, workload=workload)], readings=[reading])

    assert found("guided_decoding.slow", forms("forms to guided_json", 15)).confidence > 0.7
    assert found("guided_decoding.slow", forms("free text", 15)) is None
