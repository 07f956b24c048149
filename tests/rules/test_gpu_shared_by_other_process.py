"""gpu.shared_by_other_process: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import card, found, signal, snapshot


def company(*processes, **more):
    return snapshot(readings=[card(processes=list(processes))], **more)


OURS = {"pid": 2251, "name": "VLLM::Worker_TP0", "used_memory": 40000.0}
NOTEBOOK = {"pid": 99, "name": "/usr/bin/python3", "used_memory": 29600.0}


def test_a_stranger_with_gigabytes_is_named():
    finding = found("gpu.shared_by_other_process", company(OURS, NOTEBOOK), company(OURS))
    assert finding.summary == "/usr/bin/python3 (pid 99) holds 29600 MiB of GPU 0"
    assert finding.next_steps[0] == "ps -fp 99  # whose is it?"


def test_a_desktop_costs_nothing():
    assert (
        found(
            "gpu.shared_by_other_process", company(OURS, {"pid": 7, "name": "/usr/lib/xorg/Xorg", "used_memory": 900.0})
        )
        is None
    )


def test_company_that_the_tuned_server_had_is_the_tuned_state():
    same = company(OURS, NOTEBOOK)
    assert found("gpu.shared_by_other_process", same, same) is None


def test_unequal_free_memory_at_a_failed_start_is_named():
    said = signal("mem.unbalanced", "The memory capacity is unbalanced.", "ERROR", topics=("gpu_memory_shared",))
    assert (
        "unequal free memory"
        in found("gpu.shared_by_other_process", snapshot("sglang", signals=[said], served=False)).summary
    )
