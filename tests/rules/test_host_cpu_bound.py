"""host.cpu_bound: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import card, found, snapshot, speed


def served(tok_s, utilization, power=250.0, **host):
    return snapshot(samples=[speed(tok_s)], readings=[card(utilization_gpu=utilization, power_draw=power)], host=host)


def test_a_quota_that_runs_out_while_the_gpu_waits_is_named():
    quota = {"cpu_max": "600000 100000", "nr_periods": 611, "nr_throttled": 608}
    finding = found("host.cpu_bound", served(60.0, 10, 120.0, cgroup=quota), served(540.0, 97))
    assert finding.summary.startswith(
        "the CPU side is the limit: the CPU quota runs out in 100% of the scheduler's periods"
    )
    assert finding.next_steps[0].startswith("raise the container's CPU limit")


def test_a_slower_cpu_under_gpus_that_wait_is_named():
    finding = found(
        "host.cpu_bound",
        served(32.0, 28, 174.0, cpu_model="Xeon Gold 6138 2.00GHz", cpus=16),
        served(89.0, 95, 290.0, cpu_model="Ryzen 9 5950X", cpus=32),
    )
    assert "cpu_model: Ryzen 9 5950X -> Xeon Gold 6138 2.00GHz" in finding.summary


def test_one_whole_core_under_a_busy_gpu_is_normal():
    busy = served(50.0, 95, processes=[{"pid": 1, "name": "VLLM::EngineCore", "role": "engine", "cpu_percent": 100.0}])
    assert found("host.cpu_bound", busy) is None
