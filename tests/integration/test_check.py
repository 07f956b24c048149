"""Many hosts over real SSH on loopback, as a process: killed in the middle, the next run does the rest."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
from loopback import free_port, wait_until

from dflash_doctor.history import opened
from dflash_doctor.simulate.background import BackgroundLoop
from dflash_doctor.simulate.host import Keys, SimulatedHost, write_ssh_config

NAMES = ("gpu1", "gpu2", "gpu3", "gpu4")


@pytest.fixture(scope="module")
def fleet():
    with ExitStack() as stack:
        loop, keys = stack.enter_context(BackgroundLoop()), Keys()
        yield [stack.enter_context(SimulatedHost("a6000-tuned", name=n, loop=loop, keys=keys)) for n in NAMES]


@pytest.fixture
def command(fleet, tmp_path):
    """`command(*words)` starts a check of all names of the configuration."""
    config = write_ssh_config(fleet, tmp_path / "ssh_config")

    def start(*words, more=""):
        with config.open("a") as f:
            f.write(more)
        env = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data"), "COLUMNS": "100"}
        argv = [sys.executable, "-m", "dflash_doctor", "check", "--no-load", "--ssh-config", str(config), *words]
        return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


def visits(fleet):
    return [h.seen.sessions for h in fleet]


def test_a_check_that_is_killed_goes_on_where_it_was(fleet, command, tmp_path):
    path = str(tmp_path / "history.sqlite")
    before = visits(fleet)
    words = ("gpu*", "-j", "1", "--history", path, "-f", "json")
    first = command(*words)
    opened(path).__exit__(None, None, None)

    def one_is_done():
        with opened(path) as kept:
            return kept.hosts()

    wait_until(one_is_done, 30, "the first host's run")
    first.send_signal(signal.SIGKILL)
    first.communicate()
    with opened(path) as kept:
        done = [name for name, _ in kept.hosts()]
    again = command(*words)
    out, err = again.communicate(timeout=60)
    found = {h["name"]: h["taken_up"] for h in json.loads(out)["hosts"]}
    assert found == {n: n in done for n in NAMES}, err
    assert f"{len(done)} of 4 hosts are done" in err
    with opened(path) as kept:
        assert kept.hosts() == [(n, 1) for n in NAMES]
    after = [b - a for a, b in zip(before, visits(fleet), strict=True)]
    assert all(after[NAMES.index(n)] == 1 for n in done), "a finished host is not visited again"
    assert sum(after) <= len(NAMES) + 1, "at most the one in hand when it was killed"


def test_a_dead_host_and_one_that_hangs_cost_one_line_each(command):
    with socket.socket() as mute:  # takes the connection, and says nothing
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        more = f"\nHost dead\n  HostName 127.0.0.1\n  Port {free_port()}\n"
        more += f"Host mute\n  HostName 127.0.0.1\n  Port {mute.getsockname()[1]}\n"
        began = time.monotonic()
        out, err = command("gpu1", "dead", "mute", "--deadline", "5", "--no-history", more=more).communicate(timeout=60)
    assert time.monotonic() - began < 20
    rows = out.splitlines()
    assert sum("dead" in r and "connection refused" in r for r in rows) == 1, out
    assert sum(r.startswith("  mute") for r in rows) == 1, out
    assert err == ""
    assert rows[-1].startswith("3 hosts in ")


def test_ctrl_c_says_how_to_go_on(command, tmp_path):
    path = str(tmp_path / "history.sqlite")
    with opened(path) as kept:
        running = command("gpu*", "-j", "1", "--history", path)
        wait_until(kept.hosts, 30, "the first host's run")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out) == (2, "")
    assert "of 4 hosts are done; the same command goes on with the rest" in err
