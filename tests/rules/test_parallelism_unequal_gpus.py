"""parallelism.unequal_gpus: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import card, found, snapshot


def group(*cards, **settings):
    return snapshot(settings={"parallel.tp": len(cards)} | settings, readings=list(cards))


def test_different_products_in_one_group_are_named():
    finding = found(
        "parallelism.unequal_gpus", group(card(0, name="NVIDIA RTX A6000"), card(1, name="NVIDIA GeForce RTX 3090"))
    )
    assert finding.summary == (
        "the slowest card paces every step: NVIDIA GeForce RTX 3090 and NVIDIA RTX A6000 share one group"
    )


def test_one_slow_card_among_equals_is_named():
    assert (
        "GPU 1 runs at 1200 MHz, its siblings at 1800"
        in found("parallelism.unequal_gpus", group(card(0), card(1, clocks_sm=1200))).summary
    )


def test_a_mix_that_was_tuned_is_the_tuned_state():
    same = group(card(0, name="A"), card(1, name="B"))
    assert found("parallelism.unequal_gpus", same, same) is None


def test_equal_cards_are_equal():
    assert found("parallelism.unequal_gpus", group(card(0), card(1, clocks_sm=1785))) is None
