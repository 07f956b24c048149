"""gpu.clock_throttle: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dataclasses import replace

from tests.rules.build import card, found, snapshot

HEALTHY = snapshot(readings=[card(clocks_sm=2400, clocks_max_sm=3003)])


def test_a_clock_below_the_tuned_one_is_named():
    now = snapshot(
        readings=[card(load=False, clocks_sm=2223, clocks_max_sm=3003), card(clocks_sm=695, clocks_max_sm=3003)]
    )
    finding = found("gpu.clock_throttle", now, HEALTHY)
    assert finding.summary == "SM clock 695 MHz under load, 2400 MHz is the tuned state (no event reason set)"
    assert finding.severity == "critical"


def test_a_lock_is_told_with_the_command_that_gives_it_back():
    now = snapshot(readings=[card(clocks_sm=1200, clocks__event__reasons_active="0x0000000000000002")])
    was = snapshot(readings=[card(clocks_sm=1800)])
    assert found("gpu.clock_throttle", now, was).next_steps[0].startswith("nvidia-smi -rgc")


def test_idle_clocks_prove_nothing():
    assert found("gpu.clock_throttle", snapshot(readings=[card(load=False, clocks_sm=210)]), HEALTHY) is None


def test_the_tuned_clock_is_no_throttle():
    same = snapshot(readings=[card(clocks_sm=1400, clocks_max_sm=2100, clocks__event__reasons_active="0x4")])
    assert found("gpu.clock_throttle", same, same) is None


def test_a_clock_held_down_by_the_power_cap_is_the_caps_doing():
    now = snapshot(
        readings=[card(clocks_sm=1400, clocks__event__reasons_active="0x4", power_draw=199.0, power_limit=200.0)]
    )
    assert found("gpu.clock_throttle", now, snapshot(readings=[card(clocks_sm=1800)])) is None


def test_a_card_that_draws_power_is_at_work_where_nobody_tells_how_busy_it_is():
    def seen(watts):
        values = {"clocks_event_reasons_active": "0x0"}
        reading = card(load=None, clocks_sm=1035, clocks_max_sm=2520, power_draw=watts, power_limit=350.0, **values)
        gone = {k: v for k, v in reading.values.items() if k != "utilization.gpu"}
        return snapshot(readings=[replace(reading, values=gone)])

    assert found("gpu.clock_throttle", seen(168.0)).summary.startswith("SM clock 1035 MHz under load")
    assert found("gpu.clock_throttle", seen(30.0)) is None


def test_a_clock_that_a_low_power_limit_holds_is_the_limits_doing_however_low_it_is():
    def held(limit):
        capped = {"power_limit": limit, "power_default__limit": 350.0, "power_draw": limit - 1}
        return snapshot(
            readings=[card(clocks_sm=690, clocks_max_sm=2100, clocks__event__reasons_active="0x4", **capped)]
        )

    assert found("gpu.clock_throttle", held(140.0)) is None
    assert found("gpu.power_cap", held(140.0))
    assert found("gpu.clock_throttle", held(350.0)), "stuck, and nobody capped it"
