"""The stories that the demo tells, each from beginning to end: the real commands through real SSH and HTTP."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import pytest

from dflash_doctor.simulate.demo import DEMOS
from dflash_doctor.simulate.host import SimulatedHost

PROGRAM = [sys.executable, "-m", "dflash_doctor"]
MOST_S = 60.0


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """No baselines or keys of the person who runs the tests, and a place where temporary files can be counted."""
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return tmp_path


def told(*argv):
    """A demo's words on stdout; it must end well, in time, and leave nothing behind."""
    began = time.monotonic()
    done = subprocess.run([*PROGRAM, "demo", *argv], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - began < MOST_S
    assert "Traceback" not in done.stderr
    assert os.listdir(os.environ["TMPDIR"]) == [] and not os.path.exists(os.environ["XDG_DATA_HOME"])
    return " ".join(done.stdout.split())


def test_the_first_story_names_the_drafter_and_its_share():
    said = told()
    assert re.search(r"regressed: 1[678]\.\d tok/s, was [67]\d\.\d \((3\.[89]|4\.[0-4])x slower\)", said)
    first = said[said.index(" 1. ") :]
    assert first.startswith(" 1. spec.drafter_undertrained critical")
    assert re.search(r"\(1\.1[5-9] tokens per step, .* [67]\d% of the slow-down: 0\.3\d?x", first)


def test_a_server_that_does_not_come_up_is_put_down_to_the_library_that_is_in_the_way():
    said = told("a6000-flash-attn-4")
    first = said[said.index(" 1. ") : said.index(" 2. ")]
    assert first.startswith((" 1. attention.library_mismatch critical", " 1. server.failing critical"))
    assert "flash-attn-4 4.0.0b12 is installed" in first
    assert "pip uninstall -y flash-attn-4" in said


def test_a_healthy_host_gets_a_quiet_report():
    said = told("healthy")
    report = said[said.index("healthy: 7") : said.index("That was the whole line")]
    assert "critical" not in report and "warning" not in report
    assert "settings, no difference" in report and "metrics the same" in report
    assert len(report) < 800


def test_these_are_all_the_stories():
    assert [d.name for d in DEMOS] == ["a6000-dflash", "a6000-flash-attn-4", "healthy"]


def test_the_stories_first_cause_is_that_of_json_as_well():
    # the report for programs, without a load: what the log and the launch line tell by themselves
    with SimulatedHost("a6000-dflash") as host:
        words = ["diagnose", host.target, "--no-load", "--no-baseline", "-f", "json", "--ssh-config", host.ssh_config]
        done = subprocess.run([*PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    report = json.loads(done.stdout)
    assert done.returncode == 1 and report["verdict"] == "suspect"
    assert report["findings"][0]["cause"] == "spec.drafter_undertrained"
