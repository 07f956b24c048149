"""version.dependency_regression: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot


def test_a_changed_torch_is_named_first():
    now = snapshot(version="1", packages={"torch": "2.7.0+cu128", "triton": "3.3.0", "numpy": "2.1"})
    was = snapshot(version="1", packages={"torch": "2.6.0+cu124", "triton": "3.2.0", "numpy": "2.0"})
    finding = found("version.dependency_regression", now, was)
    assert finding.summary == "torch: 2.6.0+cu124 -> 2.7.0+cu128; triton: 3.2.0 -> 3.3.0"


def test_a_changed_driver_is_named():
    now, was = snapshot(host={"driver_version": "580.105.08"}), snapshot(host={"driver_version": "570.195"})
    assert found("version.dependency_regression", now, was).summary == "gpu.driver: 570.195 -> 580.105.08"


def test_what_came_with_a_new_engine_is_not_the_first_suspect():
    now = snapshot(version="0.28.0", packages={"torch": "2.11"})
    assert (
        found("version.dependency_regression", now, snapshot(version="0.27.1", packages={"torch": "2.10"})).confidence
        < 0.5
    )


def test_packages_that_touch_no_kernel_do_not_count():
    now, was = snapshot(packages={"uvicorn": "0.34"}), snapshot(packages={"uvicorn": "0.33"})
    assert found("version.dependency_regression", now, was) is None
