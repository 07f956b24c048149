"""`history` shows what checks have kept: numbers as lines, verdicts, and a sentence where there is nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import refused, run

EXAMPLE = Path(__file__).parent.parent / "examples" / "a6000-dflash-4x"


@pytest.fixture(autouse=True)
def _checked_twice(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("DFLASH_DOCTOR_HISTORY", raising=False)
    for _ in range(2):
        assert run("check", EXAMPLE, "-b", "qwen3.6-27b.a6000x2.sglang-mtp", "--afresh").exit_code == 1


def test_hosts_are_listed_with_the_number_of_their_runs():
    assert run("history").stdout == f"{EXAMPLE}  2\n"


def test_a_host_shows_its_numbers_and_verdicts():
    said = run("history", EXAMPLE).stdout
    assert "output speed, chat, 1 at a time" in said and "17.7 tok/s to 17.7 tok/s" in said
    assert said.count("regressed") == 2 and "spec.drafter_undertrained" in said


def test_programs_get_it_as_json():
    found = json.loads(run("history", EXAMPLE, "--format", "json").stdout)
    assert [n["verdict"] for n in found["nights"]] == ["regressed", "regressed"]
    assert {s["metric"] for s in found["series"]} >= {"output_tok_s"}


def test_an_unknown_host_is_told_who_is_known():
    assert "has no run of gpu9; it has" in refused("history", "gpu9")
