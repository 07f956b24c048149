"""parallelism.changed: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dflash_doctor.model import Setting
from tests.rules.build import found, snapshot


def test_another_split_is_named():
    now = snapshot(settings={"parallel.tp": Setting("parallel.tp", 2, "asked", "--tensor-parallel-size")})
    finding = found("parallelism.changed", now, snapshot(settings={"parallel.tp": 4}))
    assert finding.summary == "parallel.tp: 4 -> 2"
    assert finding.next_steps == ("put --tensor-parallel-size back to 4",)


def test_the_same_split_is_no_change():
    same = snapshot(settings={"parallel.tp": 2, "parallel.pp": 1})
    assert found("parallelism.changed", same, same) is None
