"""nccl.custom_allreduce_disabled: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dflash_doctor.model import Setting
from tests.rules.build import found, signal, snapshot

FOUR = {"parallel.tp": 4, "comm.custom_allreduce": True}


def test_the_flag_that_switches_it_off_is_named():
    off = Setting("comm.custom_allreduce", False, "asked", "--disable-custom-all-reduce")
    finding = found(
        "nccl.custom_allreduce_disabled",
        snapshot(settings=FOUR | {"comm.custom_allreduce": off}),
        snapshot(settings=FOUR),
    )
    assert finding.summary == (
        "the engine's custom all-reduce is off by --disable-custom-all-reduce at tensor parallel 4"
    )


def test_the_engines_refusal_is_named():
    said = signal(
        "comm.custom_ar_disabled",
        "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs.",
    )
    now = snapshot(settings={"parallel.tp": 4}, signals=[said])
    assert "on this topology" in found("nccl.custom_allreduce_disabled", now, snapshot(settings=FOUR)).summary


def test_a_refusal_that_the_tuned_server_met_too_is_by_design():
    said = signal("comm.custom_ar_disabled", "Custom allreduce is disabled because …")
    same = snapshot(settings={"parallel.tp": 4}, signals=[said])
    assert found("nccl.custom_allreduce_disabled", same, same) is None


def test_one_gpu_reduces_nothing():
    off = Setting("comm.custom_allreduce", False, "asked", "--disable-custom-all-reduce")
    assert (
        found("nccl.custom_allreduce_disabled", snapshot(settings={"parallel.tp": 1, "comm.custom_allreduce": off}))
        is None
    )
