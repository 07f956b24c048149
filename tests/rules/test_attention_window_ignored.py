"""attention.window_ignored: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, signal, snapshot, speed


def loader(window):
    return signal("unknown", f"llm_load_print_meta: n_swa            = {window}", "INFO", line=window + 3)


def test_a_window_that_the_loader_lost_is_named():
    finding = found(
        "attention.window_ignored",
        snapshot("other", signals=[loader(0)]),
        snapshot("other", signals=[loader(0), loader(4096)]),
    )
    assert "it was 4096 tokens" in finding.summary


def test_a_window_flag_without_effect_is_named():
    said = signal("spec.window_ignored", "--speculative-draft-window-size has no effect for this algorithm")
    assert found("attention.window_ignored", snapshot("sglang", signals=[said]))


def test_a_target_without_a_window_has_none_to_lose():
    same = snapshot("other", signals=[loader(0)])
    assert found("attention.window_ignored", same, same) is None


def contexts(at_short, at_long, **settings):
    samples = [speed(at_short, workload="ctx-1k"), speed(at_long, workload="ctx-60k")]
    return snapshot(settings=settings, samples=samples)


def test_an_override_of_the_checkpoint_that_takes_the_window_away_is_named():
    override = {"model.hf_overrides": '{"text_config": {"sliding_window": null, "layer_types": null}}'}
    finding = found(
        "attention.window_ignored",
        contexts(46.9, 23.1, **override),
        contexts(47.1, 44.0, **{"model.hf_overrides": "{}"}),
    )
    assert finding.confidence > 0.8
