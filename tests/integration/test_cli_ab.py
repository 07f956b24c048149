"""`ab` as a process against two servers on exact schedules."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.integration.clockwork import Clockwork


def called(*argv):
    words = [sys.executable, "-m", "dflash_doctor", "ab", *argv]
    return subprocess.run(words, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)


def test_the_faster_of_two_live_servers_is_named_on_stdout():
    with Clockwork(0.01, 0.004, 4) as quick, Clockwork(0.01, 0.008, 4) as slow:
        done = called(slow.url, quick.url, "--preset", "brief", "--format", "json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["schema"], said["faster"]) == ("dflash-doctor/ab/1", "B") and said["speed"]["factor"] > 1.3


def test_a_stored_capture_is_no_live_server():
    done = called("./case.tar.gz", "http://127.0.0.1:1")
    assert done.returncode == 2 and "is no live server" in done.stderr
