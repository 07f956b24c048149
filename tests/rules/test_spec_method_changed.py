"""spec.method_changed: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot, speed


def served(method, length, depth=4):
    return snapshot(
        settings={"spec.method": method, "spec.depth": depth}, samples=[speed(length, metric="accept_length")]
    )


def test_another_method_than_tuned_is_named():
    finding = found("spec.method_changed", served("eagle3", 2.4), served("dflash", 3.3))
    assert finding.summary.startswith("speculation runs by eagle3 (2.40 tokens per step, 4 drafted); tuned was dflash")
    assert finding.next_steps == ("put speculation by dflash back with 4 drafted tokens",)


def test_a_lost_method_has_another_name():
    assert found("spec.method_changed", served("none", 1.0), served("dflash", 3.3)) is None


def test_the_same_method_is_no_change():
    assert found("spec.method_changed", served("mtp", 2.4), served("mtp", 3.3)) is None
