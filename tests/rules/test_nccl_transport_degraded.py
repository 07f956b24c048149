"""nccl.transport_degraded: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot


def channels(transports, **settings):
    return snapshot(settings={"parallel.tp": 8} | settings, host={"nccl_transports": transports})


def test_sockets_instead_of_infiniband_are_named_with_the_switch():
    now = channels({"NET/Socket/0": 16}, **{"env.NCCL_IB_DISABLE": "1"})
    finding = found("nccl.transport_degraded", now, channels({"NET/IB/0/GDRDMA": 16}))
    assert finding.summary == (
        "NCCL sends via NET/Socket instead of NET/IB: InfiniBand/RoCE is switched off (NCCL_IB_DISABLE=1)"
    )
    assert finding.next_steps == ("unset NCCL_IB_DISABLE and start again",)


def test_infiniband_between_hosts_is_the_good_case():
    same = channels({"NET/IB/0/GDRDMA": 16})
    assert found("nccl.transport_degraded", same, same) is None


def test_shared_memory_between_cards_of_one_host_has_another_name():
    assert found("nccl.transport_degraded", channels({"SHM/direct/direct": 2})) is None
