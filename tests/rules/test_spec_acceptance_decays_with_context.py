"""spec.acceptance_decays_with_context: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot, speed, steps


def server(at_short, at_long):
    rows = [
        steps(1, 50, accept_length=at_short, context_tokens=900),
        steps(1, 40, accept_length=at_long, context_tokens=22000),
    ]
    return snapshot("sglang", settings={"spec.method": "dflash"}, intervals=rows)


def test_acceptance_that_falls_with_the_context_is_named():
    finding = found("spec.acceptance_decays_with_context", server(4.0, 2.1), server(4.0, 3.8))
    assert finding.summary == "tokens per step fall from 4.00 at short contexts to 2.10 at long ones"


def test_a_small_decline_is_every_drafters():
    assert found("spec.acceptance_decays_with_context", server(4.0, 3.6)) is None


def test_a_decline_that_the_tuned_server_had_is_no_change():
    assert found("spec.acceptance_decays_with_context", server(4.0, 2.1), server(4.0, 2.2)) is None


def test_short_is_short_beside_the_longest_context():
    def rows(*lengths):
        return [
            speed(a, metric="accept_length", workload=f"ctx-{n}", input_tokens=n)
            for n, a in zip((4000, 72000, 128000), lengths, strict=True)
        ]

    falls = snapshot(settings={"spec.method": "mtp"}, samples=rows(2.93, 2.06, 2.06))
    assert "2.93 at short contexts to 2.06" in found("spec.acceptance_decays_with_context", falls).summary
    holds = snapshot(settings={"spec.method": "mtp"}, samples=rows(2.93, 2.87, 2.8))
    assert found("spec.acceptance_decays_with_context", holds) is None


def test_workloads_tell_their_length_by_name():
    def rows(at_short, at_long):
        samples = [
            speed(at_short, metric="accept_length", workload="summary 1k"),
            speed(at_long, metric="accept_length", workload="summary 32k"),
        ]
        return snapshot(settings={"spec.method": "dflash"}, samples=samples)

    assert found("spec.acceptance_decays_with_context", rows(3.0, 1.5), rows(3.0, 2.8))
