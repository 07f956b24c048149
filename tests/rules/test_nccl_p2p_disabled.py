"""nccl.p2p_disabled: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot

TWO = {"parallel.tp": 2}


def test_the_variable_that_switches_it_off_is_named():
    now = snapshot(settings=TWO | {"env.NCCL_P2P_DISABLE": "1"})
    finding = found("nccl.p2p_disabled", now, snapshot(settings=TWO))
    assert finding.summary == "GPU peer-to-peer is off: NCCL_P2P_DISABLE is set"
    assert finding.next_steps == ("unset NCCL_P2P_DISABLE and start again",)


def test_channels_through_host_memory_tell_it_too():
    now = snapshot(settings=TWO, host={"nccl_transports": {"SHM/direct/direct": 4}})
    was = snapshot(settings=TWO, host={"nccl_transports": {"P2P/CUMEM": 4}})
    assert "via shared host memory" in found("nccl.p2p_disabled", now, was).summary


def test_a_tuned_server_without_it_lost_nothing():
    same = snapshot(settings=TWO | {"env.NCCL_P2P_DISABLE": "1"})
    assert found("nccl.p2p_disabled", same, same) is None


def test_one_gpu_has_no_peer():
    now = snapshot(settings={"parallel.tp": 1, "env.NCCL_P2P_DISABLE": "1"})
    assert found("nccl.p2p_disabled", now) is None
