"""Collecting without SSH: from this machine, and from an address alone."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from loopback import free_port

from dflash_doctor import collect
from dflash_doctor.collect import Endpoint, Options
from dflash_doctor.hosts import resolve
from dflash_doctor.model import Refused


def children() -> list[str]:
    """Command lines of our own child processes."""
    found = []
    for name in os.listdir("/proc"):
        try:
            stat = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            if stat[1] == str(os.getpid()) and stat[0] != "Z":
                found.append(Path(f"/proc/{name}/cmdline").read_text())
        except (OSError, IndexError):
            continue
    return found


def test_this_machine_is_asked_by_the_same_program(engine):
    with collect.open_session(resolve("localhost"), Options(engine_port=engine.port)) as visit:
        assert visit.endpoint() == Endpoint(f"http://127.0.0.1:{engine.port}", "local")
        visit.load_begin()
        visit.load_end()
        capture = visit.finish()
    assert capture.name == "localhost"
    assert capture.files["metrics.prom"].count(b"# scrape 2") == 3
    assert b"Geheim" not in b"".join(capture.files.values())
    assert not any("-ISBc" in c for c in children())


def test_a_visit_that_is_dropped_ends_its_program(engine):
    visit = collect.open_session(resolve("localhost"), Options(engine_port=engine.port))
    visit.look()
    assert any("-ISBc" in c for c in children())
    visit.close()
    assert not any("-ISBc" in c for c in children())


def test_a_log_may_be_named_where_it_cannot_be_found(engine, tmp_path):
    (tmp_path / "mine.log").write_text("INFO mine\n")
    options = Options(engine_port=engine.port, log=str(tmp_path / "mine.log"))
    assert collect.collect(resolve("localhost"), options).files["server.log"] == b"INFO mine\n"
    gone = Options(engine_port=engine.port, log=str(tmp_path / "gone.log"))
    capture = collect.collect(resolve("localhost"), gone)
    assert any(g.what == "log" and "No such file" in g.why for g in capture.gaps)


def test_a_question_that_hangs_costs_its_deadline_and_nothing_else(engine, tmp_path):
    (tmp_path / "dmesg").write_text("#!/bin/sh\nsleep 60\n")
    (tmp_path / "dmesg").chmod(0o755)
    began = time.monotonic()
    options = Options(engine_port=engine.port, commands=str(tmp_path), deadline_s=3.0)
    capture = collect.collect(resolve("localhost"), options)
    assert time.monotonic() - began < 6
    assert any(g.what == "kernel log" and "no answer within" in g.why for g in capture.gaps)
    assert "metrics.prom" in capture.files and "server.log" in capture.files


def test_an_address_is_asked_over_http_only(engine):
    with collect.open_session(resolve(f"http://127.0.0.1:{engine.port}/v1"), Options(api_key="Geheim-Key-42")) as visit:
        assert visit.look().chosen.name == "vllm"
        assert visit.endpoint() == Endpoint(f"http://127.0.0.1:{engine.port}", "direct")
        visit.load_begin()
        visit.load_end()
        capture = visit.finish()
    assert set(capture.files) == {"metrics.prom", "version.json", "models.json", "capture.yaml"}
    assert capture.files["metrics.prom"].count(b"# scrape 2") == 3
    assert json.loads(capture.files["version.json"]) == {"version": "0.32.0"}
    # a path that vLLM has in development mode only is no gap, what HTTP cannot show is one
    assert [g.what for g in capture.gaps] == ["host"]


def test_an_address_that_wants_a_key_says_so(engine):
    capture = collect.collect(resolve(f"http://127.0.0.1:{engine.port}"))
    assert any("HTTP 401 (it wants an API key)" in g.why for g in capture.gaps)


def test_a_server_that_goes_away_is_a_gap_once_it_was_there(engine):
    with collect.open_session(resolve(f"http://127.0.0.1:{engine.port}")) as visit:
        engine.stop()
        visit.load_begin()
        capture = visit.finish()
    assert any(g.what == "/metrics" and "refused" in g.why for g in capture.gaps)


def test_an_address_where_nobody_serves_is_refused(engine, tmp_path):
    with pytest.raises(Refused, match="cannot reach"):
        collect.open_session(resolve(f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(Refused, match=r"no-such-host\.invalid"):
        collect.open_session(resolve("http://no-such-host.invalid:8000"))
    with pytest.raises(Refused, match="is no vLLM or SGLang server"):
        collect.open_session(resolve(f"http://127.0.0.1:{engine.port}/elsewhere"))
