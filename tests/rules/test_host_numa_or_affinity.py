"""host.numa_or_affinity: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, snapshot

CARDS = {0: "0-47,96-143", 1: "48-95,144-191"}


def pinned(*cores):
    rows = [{"gpu": i, "cpus": c} for i, c in enumerate(cores)]
    return snapshot("sglang", host={"gpu_cpu_affinity": CARDS, "affinity": rows})


def test_workers_on_the_other_socket_are_counted():
    finding = found("host.numa_or_affinity", pinned("0-23", "0-23,96-119"))
    assert finding.summary == "1 worker run on the cores of another NUMA node than their GPU's"


def test_workers_on_their_own_node_are_fine():
    assert found("host.numa_or_affinity", pinned("0-23", "48-71")) is None


def test_unpinned_workers_are_fine():
    assert found("host.numa_or_affinity", pinned("0-191", "0-191")) is None
