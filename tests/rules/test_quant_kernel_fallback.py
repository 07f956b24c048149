"""quant.kernel_fallback: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, signal, snapshot, speed

SLOW = ("quant_kernel_fallback",)
LOGGED = snapshot(signals=[signal("engine.version", "vLLM API server version 0.27.1", "INFO")])


def test_emulation_is_named_with_the_engines_word():
    said = signal(
        "quant.emulation_slow", "NVFP4 linear falling back to the slow and unoptimized emulation backend", topics=SLOW
    )
    finding = found("quant.kernel_fallback", snapshot(signals=[said]), LOGGED)
    assert finding.summary == (
        "a slower quantised kernel runs: NVFP4 linear falling back to the slow and unoptimized emulation backend"
    )
    assert finding.confidence > 0.7


def test_a_weight_only_kernel_that_was_tuned_is_the_tuned_state():
    said = signal(
        "quant.marlin_fp8_emulation", "Your GPU does not have native support for FP8 computation", topics=SLOW
    )
    same = snapshot(signals=[said])
    assert found("quant.kernel_fallback", same, same) is None


def test_a_native_kernel_is_no_fallback():
    said = signal(
        "quant.kernel_selected", "Using CutlassFP8ScaledMMLinearKernel for Fp8LinearMethod", "INFO", topics=SLOW
    )
    assert found("quant.kernel_fallback", snapshot(signals=[said])) is None


def test_a_tuned_side_without_a_log_may_have_said_the_same():
    said = signal("quant.marlin_fp8_emulation", "Your GPU does not have native support for FP8", topics=SLOW)
    assert found("quant.kernel_fallback", snapshot(signals=[said]), snapshot()) is None
    now, was = snapshot(signals=[said], samples=[speed(50.0)]), snapshot(samples=[speed(80.0)])
    assert found("quant.kernel_fallback", now, was), "and yet something got slower"
