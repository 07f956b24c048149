"""Collecting through OpenSSH's own sshd: one session channel, checked keys, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import httpx
import pytest
import yaml
from loopback import Sshd, free_port, wait_until

from dflash_doctor import collect
from dflash_doctor.collect import Endpoint, Options
from dflash_doctor.model import Refused

SECRETS = (b"Geheim", b"hf_Geheim")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """No key, no agent and no known host of the person who runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


def gaps(capture):
    return {g.what: g.why for g in capture.gaps}


def test_one_session_channel_brings_everything(sshd, engine):
    before = sshd.sessions()
    with collect.open_session(sshd.host(), Options(engine_port=engine.port)) as visit:
        seen = visit.look()
        assert (seen.chosen.name, seen.chosen.port, seen.chosen.listens) == ("vllm", engine.port, True)
        visit.load_begin()
        time.sleep(0.6)
        visit.load_end()
        capture = visit.finish()
        assert visit.connection.session_channels == 1
    assert sshd.sessions() == before + 1
    assert sshd.forwards() == 0

    files = capture.files
    assert files["cmdline"].split(b"\0")[1:3] == [b"-m", b"vllm.entrypoints.openai.api_server"]
    assert b"non-default args" in files["server.log"] and b"GET /version" not in files["server.log"]
    assert files["metrics.prom"].count(b"# scrape 2") == 3  # at first sight, before the load, after it
    assert json.loads(files["version.json"]) == {"version": "0.32.0"}
    assert json.loads(files["models.json"])["data"][0]["id"] == "tiny"  # asked with the engine's own key
    assert files["packages.txt"] == b"flash-attn==2.8.3\ntorch==2.11.0\nvllm==0.32.0\n"
    assert json.loads(files["model_config.json"])["architectures"] == ["Qwen3ForCausalLM"]
    host = json.loads(files["host.json"])
    assert host["cpus"] == os.cpu_count() and host["processes"][0]["role"] == "api_server"
    assert host["processes"][0]["cpu_percent"] >= 0
    head = yaml.safe_load(files["capture.yaml"])
    assert head["engine"] == "vllm" and abs(head["clock"]["host"] - head["clock"]["here"]) < 1
    # no GPU here: that is said, and nothing else failed
    assert "nvidia-smi: not found" in gaps(capture).get("gpu", "") or "gpu.json" in files


def test_no_secret_leaves_the_host(sshd, engine):
    capture = collect.collect(sshd.host(), Options(engine_port=engine.port))
    for name, data in capture.files.items():
        for secret in SECRETS:
            assert secret not in data, f"a secret in {name}"
    assert b"--api-key\x00***\x00" in capture.files["cmdline"]
    assert b"HF_TOKEN=***" in capture.files["environ"] and b"DB_PASSWORD" not in capture.files["environ"]
    assert b"'api_key': ['***']" in capture.files["server.log"]


def test_looking_costs_under_two_seconds_beyond_the_slowest_question(sshd, engine):
    began = time.monotonic()
    collect.collect(sshd.host(), Options(engine_port=engine.port))
    # the slowest question measures CPU time over one second
    assert time.monotonic() - began < 1.0 + 2.0


def test_a_load_goes_straight_where_it_can_and_through_ssh_where_it_must(sshd, engine):
    before = sshd.forwards()
    key = Options(engine_port=engine.port, api_key="Geheim-Key-42")
    with collect.open_session(sshd.host(), key) as visit:
        assert visit.endpoint() == Endpoint(f"http://127.0.0.1:{engine.port}", "direct")
    # with somebody in between, the engine's address means something else there than here
    with collect.open_session(sshd.host(ProxyCommand=relay()), key) as visit:
        end = visit.endpoint()
        assert end.via == "ssh"
        for _ in range(3):
            assert httpx.get(end.url + "/version", trust_env=False).json() == {"version": "0.32.0"}
        # one was to see whether the host lets us through
        assert visit.connection.session_channels == 1 and visit.connection.forwarded_channels == 4
    assert sshd.forwards() == before + 4
    with pytest.raises(httpx.ConnectError):
        httpx.get(end.url + "/version", trust_env=False)


def test_an_engine_that_was_not_asked_for_is_named(sshd, engine):
    capture = collect.collect(sshd.host(), Options(engine_port=1))
    said = gaps(capture)["engine"]
    assert "no engine on port 1; found " in said and f"vllm on port {engine.port}" in said
    assert "server.log" not in capture.files


def test_without_python_a_shell_asks_what_it_can(sshd, engine):
    with collect.open_session(sshd.host(), Options(engine_port=engine.port, shell_only=True)) as visit:
        visit.load_begin()
        visit.load_end()
        capture = visit.finish()
        assert visit.connection.session_channels == 1
    files = capture.files
    assert b"vllm.entrypoints.openai.api_server" in files["cmdline"]
    assert b"non-default args" in files["server.log"] and b"GET /version" not in files["server.log"]
    assert b"VLLM_LOGGING_LEVEL=INFO" in files["environ"]
    assert files["metrics.prom"].count(b"# scrape 2") == 3
    assert json.loads(files["version.json"]) == {"version": "0.32.0"}
    assert json.loads(files["host.json"])["cpus"] == os.cpu_count()
    assert "no Python" in gaps(capture)["collector"]
    for name, data in files.items():
        assert all(secret not in data for secret in SECRETS), f"a secret in {name}"


def test_a_host_whose_path_hides_python_falls_back(sshd_folder, tmp_path, engine):
    # every program of the host but Python
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in (
        "sh",
        "sed",
        "grep",
        "awk",
        "tr",
        "cut",
        "head",
        "tail",
        "cat",
        "date",
        "wc",
        "readlink",
        "sleep",
        "curl",
    ):
        for folder in ("/usr/bin", "/bin"):
            if os.path.exists(f"{folder}/{tool}") and not (tools / tool).exists():
                (tools / tool).symlink_to(f"{folder}/{tool}")
    # the loader looks in the usual places too: there it must not find one either
    elsewhere = 'eval "$(printf %s "$SSH_ORIGINAL_COMMAND" | sed s,/[a-z/]*/python3,/nowhere/python3,g)"'
    server = Sshd(sshd_folder / "hidden", f"ForceCommand PATH={tools}; export PATH; {elsewhere}")
    try:
        capture = collect.collect(server.host(), Options(engine_port=engine.port))
        assert "no Python" in gaps(capture)["collector"] and "cmdline" in capture.files
    finally:
        server.stop()


def test_a_shell_that_speaks_first_and_one_that_starts_nothing(sshd_folder, engine):
    talking = Sshd(sshd_folder / "talking", 'ForceCommand echo "Welcome to box"; eval "$SSH_ORIGINAL_COMMAND"')
    refusing = Sshd(sshd_folder / "refusing", "ForceCommand echo This account is currently not available.; exit 1")
    try:
        assert "cmdline" in collect.collect(talking.host(), Options(engine_port=engine.port)).files
        capture = collect.collect(refusing.host())
        assert "not available" in gaps(capture)["host"] and set(capture.files) == {"capture.yaml"}
    finally:
        talking.stop()
        refusing.stop()


def test_a_host_that_forwards_nothing_can_be_looked_at_all_the_same(sshd_folder, engine):
    server = Sshd(sshd_folder / "closed", "AllowTcpForwarding no")
    try:
        with collect.open_session(server.host(ProxyCommand=relay()), Options(engine_port=engine.port)) as visit:
            assert "does not carry connections" in visit.endpoint().why
            assert "cmdline" in visit.finish().files
    finally:
        server.stop()


# -- who is let in ----------------------------------------------------------------------------------------------------


def refusal(host, **options):
    with pytest.raises(Refused) as refused:
        collect.open_session(host, Options(timeout_s=5, **options))
    said = str(refused.value)
    assert "\n" not in said
    return said


def test_an_unknown_host_key_is_refused_with_its_fingerprint(sshd, tmp_path):
    fresh = tmp_path / "known"
    said = refusal(sshd.host(UserKnownHostsFile=fresh))
    print_of = os.popen(f"ssh-keygen -lf {sshd.host_key}.pub").read().split()[1]
    assert print_of in said and "--accept-new-host-key" in said and f"ssh-keyscan -t ed25519 -p {sshd.port}" in said
    assert not fresh.exists()
    # accepted once, it is known from then on
    collect.open_session(sshd.host(UserKnownHostsFile=fresh), Options(accept_new_host_key=True)).close()
    collect.open_session(sshd.host(UserKnownHostsFile=fresh)).close()


def test_a_changed_host_key_is_refused_whatever_was_said(sshd, tmp_path):
    other = sshd.make_key(f"other{time.time_ns()}")
    changed = tmp_path / "known"
    public = " ".join(other.with_suffix(".pub").read_text().split()[:2])
    changed.write_text(f"[127.0.0.1]:{sshd.port} {public}\n")
    said = refusal(sshd.host(UserKnownHostsFile=changed, StrictHostKeyChecking="no"), accept_new_host_key=True)
    assert "HAS CHANGED" in said and "ssh-keygen -f" in said


def test_a_key_that_is_not_accepted_is_named(sshd):
    other = sshd.make_key(f"other{time.time_ns()}")
    said = refusal(sshd.host(IdentityFile=other))
    assert "it accepts none of" in said and str(other) in said


def test_a_key_with_a_passphrase_says_what_to_type(sshd, tmp_path):
    path = tmp_path / "locked"
    os.system(f"ssh-keygen -q -t ed25519 -N secret -f {path}")
    assert f"`ssh-add {path}`" in refusal(sshd.host(IdentityFile=path))


def test_a_missing_key_file_is_named(sshd, tmp_path):
    assert f"no such key file: {tmp_path}/none" in refusal(sshd.host(IdentityFile=tmp_path / "none"))


def test_a_wrong_port_and_a_wrong_service_are_told_apart(sshd, engine):
    assert "nothing listens on 127.0.0.1" in refusal(sshd.host(Port=free_port()))
    said = refusal(sshd.host(Port=engine.port))
    assert "does not speak SSH" in said


def test_an_unknown_host_is_said(sshd):
    assert "unknown host no-such-host.invalid" in refusal(sshd.host(HostName="no-such-host.invalid"))


RELAY = """
import os, socket, sys, threading
link = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def up():
    while data := os.read(0, 65536):
        link.sendall(data)
threading.Thread(target=up, daemon=True).start()
while data := link.recv(65536):
    os.write(1, data)
"""


def relay():
    """A ProxyCommand that does what `nc %h %p` does, wherever there is no nc."""
    path = os.path.join(os.environ["HOME"], "relay.py")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(RELAY)
    return f"{sys.executable} {path} %h %p"


# -- the way there ----------------------------------------------------------------------------------------------------


def test_a_jump_host_leads_there(sshd_folder, sshd, engine):
    jump = Sshd(sshd_folder / "jump", key=sshd.client_key)
    try:
        more = (
            f"\nHost jump\n  HostName 127.0.0.1\n  Port {jump.port}\n  IdentityFile {jump.client_key}\n"
            f"  UserKnownHostsFile {jump.known_hosts}\n  IdentitiesOnly yes\n  IdentityAgent none\n"
        )
        before = sshd.sessions()
        with collect.open_session(sshd.host(more=more, ProxyJump="jump"), Options(engine_port=engine.port)) as visit:
            end = visit.endpoint()
            assert end.via == "ssh"  # the jump host is there because the engine cannot be reached from here
            assert httpx.get(end.url + "/version", trust_env=False).status_code == 200
            assert "cmdline" in visit.finish().files
        assert (sshd.sessions(), jump.sessions(), jump.forwards()) == (before + 1, 0, 1)
        # the jump host's key is checked as well
        jump.known_hosts.write_text("")
        assert "host key of 127.0.0.1 is not known" in refusal(sshd.host(more=more, ProxyJump="jump"))
        jump.know(jump.host_key)
        said = refusal(sshd.host(more=more, ProxyJump="jump", Port=free_port()))
        assert "the jump host does not reach" in said
    finally:
        jump.stop()


def test_a_host_may_be_its_own_jump_host(sshd, engine):
    through = f"\nHost jump\n  HostName 127.0.0.1\n  Port {sshd.port}\n  IdentityFile {sshd.client_key}\n"
    through += f"  UserKnownHostsFile {sshd.known_hosts}\n  IdentityAgent none\n"
    capture = collect.collect(sshd.host(more=through, ProxyJump="jump"), Options(engine_port=engine.port))
    assert "cmdline" in capture.files


def test_a_proxy_command_leads_there_and_its_complaint_is_quoted(sshd, engine):
    capture = collect.collect(sshd.host(ProxyCommand=relay()), Options(engine_port=engine.port))
    assert "cmdline" in capture.files
    assert "tunnel is down" in refusal(sshd.host(ProxyCommand="sh -c 'echo tunnel is down >&2; exit 1'"))


# -- nothing stays ----------------------------------------------------------------------------------------------------


def nobody_is_left(sshd):
    wait_until(lambda: not sshd.children(), 6, f"the end of {sshd.children()}")


def test_after_the_visit_nothing_runs_there(sshd, engine):
    collect.collect(sshd.host(), Options(engine_port=engine.port))
    nobody_is_left(sshd)


@pytest.mark.parametrize("shell_only", [False, True])
@pytest.mark.parametrize("when", ["at once", "while looking", "while sampling"])
def test_a_visit_that_breaks_off_leaves_nothing_behind(sshd, engine, when, shell_only):
    visit = collect.open_session(sshd.host(), Options(engine_port=engine.port, shell_only=shell_only))
    if when == "while looking":
        visit._send(b"123\n")  # in the middle of a sentence
    elif when == "while sampling":
        visit.look()
        visit.load_begin()
    assert sshd.children()
    visit.connection.transport.close()  # as when the network goes away: no goodbye
    nobody_is_left(sshd)
    # what was heard until then is still a capture
    assert "capture.yaml" in visit.capture().files
    visit.close()


def test_ctrl_c_leaves_nothing_behind(sshd, engine):
    host = f"resolve('box', Path({str(sshd.config())!r}))"
    program = (
        "from pathlib import Path; from dflash_doctor import collect; from dflash_doctor.hosts import resolve\n"
        f"with collect.open_session({host}, collect.Options(engine_port={engine.port})) as visit:\n"
        "    visit.look(); visit.load_begin(); print('sampling', flush=True)\n"
        "    while True: visit._heard.wait_for('never', 1, 60)\n"
    )
    ours = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert ours.stdout.readline() == b"sampling\n"
    assert sshd.children()
    ours.send_signal(signal.SIGINT)
    assert ours.wait(5) != 0
    ours.stdout.close()
    nobody_is_left(sshd)


def test_a_connection_that_ends_early_is_a_gap(sshd, engine):
    with collect.open_session(sshd.host(), Options(engine_port=engine.port)) as visit:
        visit.look()
        visit.connection.transport.close()
        visit.load_begin()
        capture = visit.finish()
    assert "ended early" in gaps(capture)["collector"] or "closed" in gaps(capture)["collector"]
    assert "cmdline" in capture.files


def test_nothing_is_written_on_the_host(sshd, engine, tmp_path):
    watched = tmp_path / "home"
    watched.mkdir()
    before = {p: p.stat().st_mtime_ns for p in engine.folder.rglob("*") if p.is_file() and p != engine.log}
    collect.collect(sshd.host(), Options(engine_port=engine.port))
    after = {p: p.stat().st_mtime_ns for p in engine.folder.rglob("*") if p.is_file() and p != engine.log}
    assert after == before and not list(watched.iterdir())
