"""nccl.version_changed: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot


def library(version, busbw=None, **more):
    rows = [{"size": 1 << k, "busbw": busbw} for k in (20, 22, 24)] if busbw else None
    return snapshot(
        settings={"comm.nccl_version": version, "parallel.tp": 8}, host={"nccl_tests": rows} if rows else {}, **more
    )


def test_a_new_library_with_a_tenth_of_the_bandwidth_is_named():
    finding = found("nccl.version_changed", library("2.16.2", 1.0), library("2.14.3", 10.0))
    assert finding.summary == "NCCL: 2.14.3 -> 2.16.2; all-reduce bandwidth is 0.10x of what it was"
    assert finding.confidence > 0.9


def test_a_new_library_that_measured_the_same_is_hardly_suspect():
    assert found("nccl.version_changed", library("2.16.2", 10.0), library("2.14.3", 10.0)).confidence < 0.2


def test_the_same_library_is_no_change():
    assert found("nccl.version_changed", library("2.28.9"), library("2.28.9")) is None
