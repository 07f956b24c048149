"""version.engine_regression: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot


def test_another_version_is_named_with_the_restart_that_settles_it():
    finding = found("version.engine_regression", snapshot(version="0.28.0"), snapshot(version="0.27.1"))
    assert finding.summary == "vllm went from 0.27.1 to 0.28.0"
    assert finding.next_steps == ("start vllm 0.27.1 once with the same launch line and run the same load",)


def test_two_engines_are_not_versions_of_one_another():
    assert (
        found("version.engine_regression", snapshot("vllm", version="0.20.1"), snapshot("sglang", version="0.5.10"))
        is None
    )


def test_the_same_version_has_not_regressed():
    assert found("version.engine_regression", snapshot(version="0.28.0"), snapshot(version="0.28.0")) is None
