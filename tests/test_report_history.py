"""The history of a host at a terminal: the line, the turn, what changed with it."""

from __future__ import annotations

import json

import pytest
from command_line import run
from historical import run as night

from dflash_doctor.history import opened
from dflash_doctor.report.history import spark


@pytest.fixture
def kept(tmp_path):
    """Thirty nights of a host whose engine was updated on the sixteenth."""
    path = str(tmp_path / "h.sqlite")
    with opened(path) as store:
        for i in range(30):
            factor = (1.0 if i < 15 else 0.9) + 0.004 * (i % 3)
            facts = {"engine.version": "0.20.1" if i < 15 else "0.21.0", "attention.backend": "flash_attn"}
            verdict = "healthy" if i < 15 else "regressed"
            numbers = {"output_tok_s|chat|1": 70 * factor, "kv_tokens|chat|1": 1000.0}
            store.record(night(at=1.75e9 + 86400.0 * i, verdict=verdict, factor=factor, facts=facts, numbers=numbers))
    return path


def test_the_turn_has_its_day_its_levels_and_what_changed(kept):
    text = run("history", "gpu7", "--history", kept).stdout
    assert text.startswith("gpu7: 30 runs, 2025-06-15 to 2025-07-14\n")
    turn = text.index("2025-06-30  70.3 tok/s before, 63.3 tok/s since (10% slower), p<0.001")
    assert "engine.version  0.20.1  ->  0.21.0" in text[turn:]
    assert "attention.backend" not in text, "what stayed the same is not told"
    assert text.count("regressed  so it is") == 10, "the last ten nights"
    assert "KV cache" not in text and "KV cache" in run("history", "gpu7", "--history", kept, "--all").stdout


def test_a_program_gets_every_value(kept):
    found = json.loads(run("history", "gpu7", "--history", kept, "-f", "json").stdout)
    assert len(found["nights"]) == len(found["series"][0]["values"]) == 30
    (turn,) = found["series"][0]["turns"]
    assert (turn["at"], turn["changed"]) == (15, [{"key": "engine.version", "was": "0.20.1", "now": "0.21.0"}])


def test_old_runs_are_let_go_when_asked(kept):
    assert "30 runs were let go" in run("history", "--prune", "--history", kept).stderr


def test_noise_is_not_drawn_as_mountains():
    assert set(spark([100.0, 100.4, 99.7, 100.1], 40)) <= {"▄", "▅"}, "within a hundredth: the middle of the line"
    assert spark([1.0, 2.0], 40) == "▁█"
    assert len(spark([float(i) for i in range(500)], 40)) == 40
