"""The stories that the demo tells, each from beginning to end: the real commands through real SSH and HTTP."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from dflash_doctor.simulate.demo import DEMOS
from dflash_doctor.simulate.host import SimulatedHost

PROGRAM = [sys.executable, "-m", "dflash_doctor"]
MOST_S = 60.0


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """What each story says on stdout. They mostly wait for answers, so they are told side by side."""
    running = {}
    for name in (d.name for d in DEMOS):
        base = tmp_path_factory.mktemp(name)
        for folder in ("home", "tmp"):
            (base / folder).mkdir()
        # no baselines or keys of the person who runs the tests, and a place where temporary files can be counted
        homes = {"HOME": base / "home", "XDG_DATA_HOME": base / "data", "TMPDIR": base / "tmp"}
        env = {**os.environ, **{k: str(v) for k, v in homes.items()}}
        words = [*PROGRAM, "demo", *([] if name == DEMOS[0].name else [name])]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        running[name] = (process, base)
    return {name: _told(process, base) for name, (process, base) in running.items()}


def _told(process, base):
    """A demo's words; it must end well, in time, and leave nothing behind."""
    out, err = process.communicate(timeout=MOST_S)
    assert process.returncode == 0, out + err
    assert "Traceback" not in err
    assert os.listdir(base / "tmp") == [] and not (base / "data").exists()
    return " ".join(out.split())


def test_the_first_story_names_the_drafter_and_its_share(stories):
    said = stories["a6000-dflash"]
    assert re.search(r"regressed: 1[678]\.\d tok/s, was [67]\d\.\d \((3\.[89]|4\.[0-4])x slower\)", said)
    first = said[said.index(" 1. ") :]
    assert first.startswith(" 1. spec.drafter_undertrained critical")
    assert re.search(r"\(1\.1[5-9] tokens per step, .* [67]\d% of the slow-down: 0\.3\d?x", first)


def test_a_server_that_does_not_come_up_is_put_down_to_the_library_that_is_in_the_way(stories):
    said = stories["a6000-flash-attn-4"]
    first = said[said.index(" 1. ") : said.index(" 2. ")]
    assert first.startswith((" 1. attention.library_mismatch critical", " 1. server.failing critical"))
    assert "flash-attn-4 4.0.0b12 is installed" in first
    assert "pip uninstall -y flash-attn-4" in said


def test_a_healthy_host_gets_a_quiet_report(stories):
    said = stories["healthy"]
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
