"""server.failing: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from tests.rules.build import found, signal, snapshot, steps


def test_the_first_telling_error_is_quoted():
    echo = signal(
        "err.engine_dead",
        "(APIServer pid=1) ERROR [launcher.py:1] Engine core initialization failed.",
        "ERROR",
        line=90,
    )
    cause = signal("unknown", "(EngineCore pid=2) ERROR [core.py:9] ValueError: KV cache is too big", "ERROR", line=80)
    finding = found("server.failing", snapshot(signals=[echo, cause], served=False))
    assert finding.summary == "the server did not come up: ValueError: KV cache is too big"
    assert finding.evidence[0] == cause.evidence


def test_a_server_that_served_and_was_stopped_is_fine():
    late = signal("err.engine_dead", "ERROR EngineDeadError", "ERROR")
    assert found("server.failing", snapshot(signals=[late], served=True, intervals=[steps()])) is None


def test_a_server_that_died_three_times_before_this_start_is_named():
    dead = snapshot(served=False)
    finding = found("server.failing", snapshot(served=True, earlier=(dead, dead, dead)))
    assert finding.summary == "the server died 3 times before this start"
