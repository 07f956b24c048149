"""`check` with captures for hosts: quiet when all is well, the worst decides, what is done is not repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import refused, run

from dflash_doctor.history import opened

EXAMPLE = Path(__file__).parent.parent / "examples" / "a6000-dflash-4x"
CAPTURES = Path(__file__).parent / "captures"
SPED = CAPTURES / "v032_spec_draft_good_k4"
ILL = ("-b", "qwen3.6-27b.a6000x2.sglang-mtp")


@pytest.fixture(autouse=True)
def _at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("DFLASH_DOCTOR_HISTORY", raising=False)


def test_all_well_prints_one_line_and_with_quiet_nothing():
    done = run("check", SPED, "-b", SPED)
    assert (done.exit_code, done.stdout.splitlines()[-1].partition(" s")[2]) == (0, ": 1 healthy")
    done = run("check", SPED, "-b", SPED, "--quiet")
    assert (done.exit_code, done.output) == (0, "")


def test_the_worst_host_decides_and_a_dead_one_costs_one_line(tmp_path):
    gone = tmp_path / "gone.log"
    done = run("check", EXAMPLE, gone, *ILL)
    assert done.exit_code == 1, "regressed wins over unreachable"
    assert [r for r in done.stdout.splitlines() if "gone.log" in r and "no such" in r.lower()], done.stdout
    assert run("check", SPED, gone, "-b", SPED).exit_code == 2


def test_a_log_that_cannot_be_read_by_us_does_not_stop_the_others(tmp_path):
    (tmp_path / "empty").mkdir()
    done = run("check", tmp_path / "empty", SPED, "-b", SPED, "-f", "json")
    found = {Path(h["name"]).name: h["verdict"] for h in json.loads(done.stdout)["hosts"]}
    assert found[SPED.name] == "healthy"
    assert found["empty"] in ("unreachable", "inconclusive")


def test_other_programs_get_theirs_in_files(tmp_path):
    xml, prom = tmp_path / "out.xml", tmp_path / "doctor.prom"
    done = run("check", EXAMPLE, *ILL, "--also", f"junit={xml}", "--also", f"prometheus={prom}", "-f", "nagios")
    assert done.exit_code == 1
    assert done.stdout.startswith("DFLASH-DOCTOR CRITICAL - ")
    assert "<failure" in xml.read_text()
    assert 'cause="spec.drafter_undertrained"' in prom.read_text()


def test_every_run_is_in_the_history(tmp_path):
    for _ in range(2):
        run("check", EXAMPLE, *ILL, "--history", tmp_path / "h.sqlite")
    with opened(str(tmp_path / "h.sqlite")) as kept:
        runs = kept.runs(str(EXAMPLE))
    assert [r.verdict for r in runs] == ["regressed", "regressed"]
    assert runs[0].sweep != runs[1].sweep
    assert runs[0].facts["engine.version"] == "0.20.1"


def test_what_an_interrupted_check_has_seen_is_not_looked_at_again(tmp_path, monkeypatch):
    from dflash_doctor.history.store import Store

    monkeypatch.setattr(Store, "end", lambda *_: None)  # as if it had been killed before its end
    first = run("check", SPED, EXAMPLE, *ILL)
    again = run("check", SPED, EXAMPLE, *ILL)
    assert "2 of 2 hosts are done" in again.stderr
    assert "(2 of them before it was interrupted)" in again.stdout
    assert again.exit_code == first.exit_code == 1
    assert "taken up" not in run("check", SPED, EXAMPLE, *ILL, "--afresh").stderr


def test_a_history_that_is_full_at_the_end_is_said_and_the_report_is_not_lost(monkeypatch):
    from dflash_doctor.history.store import Store
    from dflash_doctor.model import Refused

    def full(*_):
        raise Refused("the history h cannot be written: database or disk is full")

    monkeypatch.setattr(Store, "record", full)
    done = run("check", SPED, "-b", SPED)
    assert done.exit_code == 2
    assert (
        "1 of 1 runs are not in the history: the history h cannot be written: database or disk is full" in done.stderr
    )
    assert "1 healthy" in done.stdout
    monkeypatch.undo()


def test_the_usual_list_is_taken_when_nothing_is_named(tmp_path):
    assert "hosts.yaml" in refused("check")
    folder = tmp_path / "config" / "dflash-doctor"
    folder.mkdir(parents=True)
    (folder / "hosts.yaml").write_text(f"groups: {{lab: {{baseline: {SPED}, hosts: [{SPED}]}}}}")
    assert run("check", "-g", "lab", "-q").exit_code == 0


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--hosts", "none.yaml"], "none.yaml cannot be read: No such file or directory"),
        (["gpu1", "--also", "pdf=x"], "--also pdf=x is not known"),
        (["gpu1", "--webhook-env", "NO_SUCH_VARIABLE"], "the variable NO_SUCH_VARIABLE"),
        (["gpu1", "-b", "no-such-baseline"], "there is no baseline named 'no-such-baseline'"),
        (["-"], "a log on stdin is one host"),
        (["gpu1", "--afresh", "--no-history"], "exclude each other"),
        (["gpu1", "--history", "mysql://x/y"], "SQLite or PostgreSQL"),
    ],
)
def test_bad_words_are_one_sentence_before_any_host_is_looked_at(argv, says):
    assert says in refused("check", *argv)
