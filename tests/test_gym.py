"""The fault gym's cases are sound; `python -m tests.gym` runs them, which takes minutes."""

from __future__ import annotations

import pytest
import yaml

from dflash_doctor.causes import causes
from dflash_doctor.physics import STEP, TOKENS
from dflash_doctor.simulate import scenario as scenarios
from tests.gym.__main__ import FAULTS, judged, tuned

GYM = yaml.load(FAULTS.read_text(encoding="utf-8"), scenarios.Loader)
CASES = [*GYM["faults"], *GYM["healthy"]]


def test_there_are_enough_of_both():
    assert len(GYM["faults"]) >= 25 and len(GYM["healthy"]) >= 10
    assert len({c["name"] for c in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["name"])
def test_each_case_is_a_host_that_differs_from_the_tuned_one(case):
    base = tuned(case["host"], GYM["tuned"][case["host"]])
    assert scenarios.vary(base, **case["change"]) != base
    if "cause" in case:
        assert case["cause"] in causes()
        assert set(case.get("slows", {})) <= {STEP, TOKENS}


def report(verdict, *found, factor=0.5):
    findings = [{"cause": c, "severity": "warning"} for c in found]
    parts = [{"name": STEP, "factor": factor}]
    return {"verdict": verdict, "findings": findings, "slowdown": {"parts": parts}}


def test_a_fault_must_stand_first_with_its_factor():
    case = {"name": "x", "cause": "cudagraph.disabled", "slows": {STEP: 0.5}}
    assert judged(case, report("regressed", "cudagraph.disabled")).right
    assert not judged(case, report("regressed", "gpu.power_cap", "cudagraph.disabled")).right
    assert not judged(case, report("regressed", "cudagraph.disabled", factor=0.6)).right


def test_a_healthy_host_must_be_left_in_peace():
    assert judged({"name": "x"}, report("healthy")).right
    assert not judged({"name": "x"}, report("suspect", "gpu.power_cap")).right
