"""guided_decoding.slow: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import card, found, snapshot


def grammar(backend, utilization=95):
    return snapshot(settings={"grammar.backend": backend}, readings=[card(utilization_gpu=utilization)])


def test_another_grammar_backend_under_a_gpu_that_waits_is_named():
    finding = found("guided_decoding.slow", grammar("outlines", 20), grammar("xgrammar"))
    assert finding.summary == "grammar.backend: xgrammar -> outlines (20 % busy)"
    assert finding.confidence > 0.6


def test_the_same_backend_is_no_change():
    assert found("guided_decoding.slow", grammar("xgrammar"), grammar("xgrammar")) is None
