"""gpu.power_cap: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import card, found, snapshot


def test_a_limit_that_binds_is_named_with_the_command_that_lifts_it():
    now = snapshot(
        readings=[card(power_draw=199.0, power_limit=200.0, clocks_sm=1400, clocks__event__reasons_active="0x4")]
    )
    finding = found("gpu.power_cap", now, snapshot(readings=[card(power_limit=300.0, clocks_sm=1800)]))
    assert finding.summary == "power limit 200 W binds on GPU 0; the tuned state is 300 W"
    assert finding.next_steps == ("nvidia-smi -i 0 -pl 300",)


def test_a_limit_that_the_draw_does_not_reach_costs_nothing():
    now = snapshot(readings=[card(power_draw=246.0, power_limit=300.0, power_default__limit=450.0)])
    assert found("gpu.power_cap", now, snapshot(readings=[card(power_draw=246.0, power_limit=510.0)])) is None


def test_a_limit_of_the_tuned_state_is_the_tuned_state():
    same = snapshot(
        readings=[
            card(power_draw=229.0, power_limit=230.0, power_default__limit=350.0, clocks__event__reasons_active="0x4")
        ]
    )
    assert found("gpu.power_cap", same, same) is None
