"""The program as a process against real SSH and HTTP on loopback: what is wrong is one sentence, and nothing stays."""

from __future__ import annotations

import http.server
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import paramiko
import pytest

from dflash_doctor.collect import url
from dflash_doctor.simulate.host import SimulatedHost

PROGRAM = [sys.executable, "-m", "dflash_doctor"]
LOG = Path(__file__).parent.parent / "logs" / "v032_base_compiled.log"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder of its own; no baselines, keys or agent of the person who runs the tests."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture(scope="module")
def host():
    """One served host that all tests of this file share."""
    with SimulatedHost("healthy", name="gpu7") as served:
        yield served


def called(*argv, **more):
    """One call, from its start to its end."""
    given = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 60, **more}
    return subprocess.run([*PROGRAM, *map(str, argv)], check=False, **given)


def refused(*argv):
    """The one sentence on stderr of a call that must end with 2 and print nothing else."""
    done = called(*argv)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.startswith("dflash-doctor: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


# -- SSH --------------------------------------------------------------------------------------------------------------


def config(host, place, **changed):
    """The host's ssh_config with some lines changed."""
    lines = []
    for line in host.ssh_config.read_text().splitlines():
        word = line.split()[0] if line.split() else ""
        lines.append(f"  {word} {changed[word]}" if word in changed else line)
    path = place.parent / "config"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_an_unknown_key_is_refused_with_its_fingerprint_and_the_way_to_accept_it(host, place):
    known = place.parent / "known"
    known.touch()
    other = config(host, place, UserKnownHostsFile=known)
    said = refused("diagnose", "gpu7", "--ssh-config", other)
    assert re.search(r"is not known: \S+ SHA256:\S+\. Compare .* accept it with --accept-new-host-key", said)
    assert known.read_text() == ""
    done = called("collect", "gpu7", "-o", "case", "--accept-new-host-key", "--ssh-config", other)
    assert done.returncode == 0 and known.read_text().startswith("[127.0.0.1]:")


def test_a_changed_key_is_refused_even_if_new_ones_are_accepted(host, place):
    known = place.parent / "known"
    key = paramiko.ECDSAKey.generate()
    known.write_text(f"[127.0.0.1]:{host.ssh_port} {key.get_name()} {key.get_base64()}\n")
    other = config(host, place, UserKnownHostsFile=known)
    said = refused("diagnose", "gpu7", "--accept-new-host-key", "--ssh-config", other)
    assert "HAS CHANGED" in said and f"{known} line 1" in said and f"ssh-keygen -f {known} -R" in said


def test_a_refused_key_is_named(host, place):
    mine = place.parent / "mine"
    paramiko.ECDSAKey.generate().write_private_key_file(str(mine))
    said = refused("diagnose", "gpu7", "--ssh-config", config(host, place, IdentityFile=mine))
    assert f"ssh refused root@127.0.0.1: it accepts none of: {mine}" in said
    said = refused("diagnose", "gpu7", "--ssh-config", config(host, place, IdentityFile=place / "none"))
    assert f"no such key file: {place / 'none'}" in said


def test_a_wrong_port_and_an_unknown_host_are_said(host, place):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    said = refused("diagnose", "gpu7", "--ssh-config", config(host, place, Port=port))
    assert f"nothing listens on 127.0.0.1 port {port}" in said
    with web(page(404)) as address:
        assert re.search(r"127\.0\.0\.1 port \d+ does not speak SSH", refused("diagnose", address.split("/")[-1]))
    assert "unknown host no-such-host.invalid" in refused("diagnose", "no-such-host.invalid")


def test_a_bare_word_is_a_host_though_a_folder_is_called_so(place):
    (place / "no-such-host.invalid").mkdir()
    done = called("diagnose", "no-such-host.invalid")
    assert done.returncode == 2 and done.stderr.splitlines()[0] == (
        "note: no-such-host.invalid is taken as a host; for the file or folder of that name here, write "
        "./no-such-host.invalid"
    )


def test_a_host_where_nobody_serves_is_inconclusive_and_never_healthy(host):
    done = called("diagnose", "gpu7", "--engine-port", "9", "--ssh-config", host.ssh_config)
    assert done.returncode == 2 and done.stdout.startswith("inconclusive: ")
    assert "no engine on port 9; found sglang on port" in " ".join(done.stdout.split())
    said = refused("baseline", "capture", "gpu7", "--name", "x", "--engine-port", "9", "--ssh-config", host.ssh_config)
    assert "no load can be run: there is no engine" in said


def test_everything_that_would_run_on_the_host_can_be_read_before(host):
    sessions = host.seen.sessions
    done = called("collect", "gpu7", "--plan", "--ssh-config", host.ssh_config)
    assert done.returncode == 0 and "nvidia-smi" in done.stdout and host.seen.sessions == sessions


# -- HTTP -------------------------------------------------------------------------------------------------------------


@contextmanager
def web(answer):
    """A web server that gives every path the same answer."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def page(status, body=b"", **headers):
    def answer(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


PAGES = {
    "nothing there": (page(404), "HTTP 404"),
    "a welcome page": (page(200, b"<html>Welcome to nginx!</html>"), "nothing that it answers is an engine's"),
    "another exporter": (page(200, b"# TYPE node_load1 gauge\nnode_load1 0.3\n"), "nothing that it answers"),
    "out of order": (page(500), "HTTP 500"),
    "locked": (page(401), r"it wants an API key\); give the key with --api-key-env or --api-key-file"),
    "round in circles": (page(302, Location="/x"), "redirects"),
}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("flag", ["--load", "--no-load"])
def test_an_address_that_is_no_engines_is_refused(name, flag):
    answer, words = PAGES[name]
    with web(answer) as address:
        said = refused("diagnose", address, flag)
    assert re.search(f"{address} is no vLLM or SGLang server: .*{words}", said)


def test_an_address_where_nobody_listens_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert f"cannot reach http://127.0.0.1:{port}" in refused("diagnose", f"http://127.0.0.1:{port}")


def test_an_address_that_is_silent_or_never_ends_costs_its_time_once(monkeypatch):
    # inside the test, so that the time can be short
    from dflash_doctor import collect, hosts
    from dflash_doctor.model import Refused

    monkeypatch.setattr(url, "ANSWER_S", 0.5)

    def drips(handler):
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):
            while True:
                handler.wfile.write(b"x")
                time.sleep(0.05)

    for answer in (lambda handler: time.sleep(3), drips):
        began = time.monotonic()
        with web(answer) as address, pytest.raises(Refused, match=r"takes the connection but does not answer within"):
            collect.open_session(hosts.resolve(address))
        assert time.monotonic() - began < 2.5


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


def visitors(host):
    """Whether anything still runs on the simulated host for whoever visited it."""
    said = subprocess.run(["sh", "-c", "cat /proc/[0-9]*/environ 2>/dev/null"], capture_output=True, check=False)
    return str(host.folder).encode() in said.stdout


def until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    assert true()


@pytest.mark.parametrize("after", ["connected", "loading"])
def test_ctrl_c_is_a_sentence_and_leaves_nothing_on_either_side(host, place, after):
    # the run of the load begins with prompts, and each is a line of the log
    seen = {"connected": lambda: host.seen.sessions, "loading": lambda: host.log_text.count("Prefill batch")}[after]
    before = seen()
    process = subprocess.Popen(
        [*PROGRAM, "diagnose", "gpu7", "--save", "case", "--ssh-config", str(host.ssh_config)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until(lambda: seen() > before)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (2, "", "dflash-doctor: stopped; nothing is left behind\n")
    assert os.listdir(place) == []
    until(lambda: not visitors(host), 5.0)


# -- streams ----------------------------------------------------------------------------------------------------------


def test_a_reader_that_has_seen_enough_is_no_error():
    for argv in (["diagnose", str(LOG)], ["explain"], ["diagnose", str(LOG), "-f", "json"], ["baseline", "list"]):
        read, write = os.pipe()
        os.close(read)
        done = called(*argv, capture_output=False, stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("form", ["terminal", "json", "markdown"])
def test_a_full_disk_under_the_report_is_a_sentence(form):
    with open("/dev/full", "wb") as full:
        done = called("diagnose", LOG, "-f", form, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr == "dflash-doctor: the report cannot be written: No space left on device\n"


def test_streams_that_are_closed_are_no_traceback():
    shell = f"exec {sys.executable} -m dflash_doctor diagnose"
    for rest, status in ((f"{LOG} >&-", 2), ("- <&-", 2), (f"{LOG} 2>&-", 0)):
        done = subprocess.run(["sh", "-c", f"{shell} {rest}"], capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == status and "Traceback" not in done.stderr


def terminal(*argv, **env):
    """stdout and stderr of a call on a real terminal of 80 columns, and its exit status."""
    pid, master = pty.fork()
    if pid == 0:
        given = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", **env}
        os.execvpe(sys.executable, [*PROGRAM, *map(str, argv)], given)
    said = b""
    end = time.monotonic() + 60
    while time.monotonic() < end and select.select([master], [], [], 30)[0]:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        said += piece
    os.close(master)
    return said.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_colour_repeats_words_and_no_color_is_honoured():
    said, status = terminal("diagnose", LOG)
    assert status == 0 and "\x1b[1;32mhealthy\x1b[0m: " in said
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        said, status = terminal("diagnose", LOG, **env)
        assert status == 0 and "healthy: " in said and "\x1b[1" not in said
    assert "\x1b" not in terminal("explain", "spec.not_active", NO_COLOR="1")[0]


def test_who_waits_at_a_terminal_sees_what_for_and_a_pipe_hears_nothing(host):
    look = ("collect", "gpu7", "--ssh-config", host.ssh_config, "-o")
    said, status = terminal(*look, "seen")
    assert status == 0 and "looking at gpu7" in said
    done = called(*look, "piped")
    assert done.returncode == 0 and re.fullmatch(r"(not seen: .*\n)*\d+ files from gpu7 in piped\n", done.stderr)
