"""host.api_server_bound: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import card, found, snapshot, steps


def front(api, engine, utilization, waiting=0):
    rows = [
        {"pid": 1, "name": "python3", "role": "api_server", "cpu_percent": api},
        {"pid": 2, "name": "python3", "role": "engine", "cpu_percent": engine},
    ]
    return snapshot(
        host={"processes": rows},
        readings=[card(utilization_gpu=utilization)],
        intervals=[steps(2, 0.0, waiting=waiting)],
    )


def test_a_front_end_at_a_whole_core_while_the_engine_idles_is_named():
    finding = found("host.api_server_bound", front(100.0, 41.2, 22))
    assert finding.summary == "the front end uses a whole core (100 %) while the engine does not; the GPU is 22 % busy"


def test_an_engine_at_a_whole_core_is_the_cpu_side_of_the_engine():
    assert found("host.api_server_bound", front(100.0, 100.0, 22)) is None


def test_a_busy_gpu_is_not_held_up_by_its_front_end():
    assert found("host.api_server_bound", front(100.0, 41.2, 96)) is None
