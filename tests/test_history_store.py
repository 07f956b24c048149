"""The history keeps whole runs, each once, whoever writes and whenever somebody is killed; on SQLite and PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
import threading

import pytest
from historical import POSTGRES, postgres_database, run

from dflash_doctor.formats.baseline import Baseline, Conditions, Passport
from dflash_doctor.history import migrations, opened
from dflash_doctor.history.store import Store
from dflash_doctor.model import Refused

needs_postgres = pytest.mark.skipif(
    POSTGRES is None, reason="DFLASH_DOCTOR_POSTGRES names no server (postgresql://…) on which databases may be made"
)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def address(request, tmp_path):
    """An empty store of each kind."""
    if request.param == "sqlite":
        yield str(tmp_path / "history.sqlite")
    else:
        with postgres_database() as url:
            yield url


def test_a_run_comes_back_as_it_was(address):
    night = run(factor=0.5, verdict="regressed", facts={"engine.version": "0.20.1"})
    with opened(address) as kept:
        assert kept.record(night)
        (back,) = kept.runs("gpu7")
        assert (back.report, back.says, back.facts, back.factor) == (night.report, night.says, night.facts, 0.5)
        assert kept.series("gpu7") == {"output_tok_s|chat|1": [(back.number, 50.0)]}
        assert kept.hosts() == [("gpu7", 1)]


def test_a_run_sent_twice_is_kept_once(address):
    night = run()
    with opened(address) as kept, opened(address) as other:
        assert kept.record(night)
        assert not other.record(night)
        assert len(kept.runs("gpu7")) == 1


def test_a_host_has_one_run_in_a_check(address):
    with opened(address) as kept:
        sweep = kept.begin("all", "plan")
        assert kept.record(run(at=1.0), sweep)
        assert not kept.record(run(at=2.0), sweep)
        assert kept.record(run("gpu8"), sweep)
        assert [r.host for r in kept.done(sweep)] == ["gpu7", "gpu8"]


def test_an_interrupted_check_goes_on_and_an_ended_one_does_not(address):
    with opened(address) as kept:
        first = kept.begin("all", "plan")
        kept.record(run(), first)
        again = kept.begin("all", "plan")
        assert (again.id, again.taken_up) == (first.id, True)
        assert not kept.begin("others", "another plan").taken_up
        assert not kept.begin("all", "plan", afresh=True).taken_up
        kept.end(first)
    with opened(address) as kept:
        kept.end(kept.begin("all", "plan"))  # the one that was begun afresh
        assert not kept.begin("all", "plan").taken_up


def test_the_check_of_another_night_is_not_taken_up(tmp_path):
    now = [1_000_000.0]
    with Store(str(tmp_path / "h"), clock=lambda: now[0]) as kept:
        kept.begin("all", "plan")
        now[0] += 24 * 3600
        assert not kept.begin("all", "plan").taken_up


def test_a_check_that_another_program_is_running_is_left_alone(address):
    with opened(address) as kept, opened(address) as mine:
        kept.owner = f"{kept.owner.rpartition(':')[0]}:{os.getppid()}"
        kept.begin("all", "plan")
        with pytest.raises(Refused, match="right now"):
            mine.begin("all", "plan")


def test_a_clock_that_steps_back_loses_nothing_and_turns_no_order(tmp_path):
    now = [2_000_000.0]
    with Store(str(tmp_path / "h"), clock=lambda: now[0]) as kept:
        kept.record(run(at=2_000_000.0, verdict="healthy"))
        now[0] = 1_000_000.0
        sweep = kept.begin("all", "plan")
        kept.record(run(at=1_000_000.0, verdict="regressed"), sweep)
        assert [r.verdict for r in kept.runs("gpu7")] == ["healthy", "regressed"]
        assert kept.begin("all", "plan").taken_up


def test_many_writers_lose_nothing_and_double_nothing(address):
    shared = [run(f"shared{i}") for i in range(5)]
    opened(address).__exit__(None, None, None)
    wrong = []

    def write(k):
        try:
            with opened(address) as kept:
                for i in range(10):
                    kept.record(run(f"own{k}", at=float(i)))
                for one in shared:
                    kept.record(one)
        except Exception as e:
            wrong.append(e)

    threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    with opened(address) as kept:
        assert dict(kept.hosts()) == {f"own{k}": 10 for k in range(4)} | {f"shared{i}": 1 for i in range(5)}
        assert all(len(rows) == 10 for rows in (kept.series("own0").values()))


WRITER = """
    import sys
    sys.path.insert(0, sys.argv[2])
    from historical import run
    from dflash_doctor.history import opened
    kept = opened(sys.argv[1])
    for i in range(10_000):
        kept.record(run("gpu7", at=float(i)))
        print(i, flush=True)
"""


def test_a_writer_that_is_killed_leaves_whole_runs(address):
    here = os.path.dirname(__file__)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), address, here], stdout=subprocess.PIPE, text=True
    ) as writer:
        told = [int(writer.stdout.readline()) for _ in range(20)]
        writer.kill()
    with opened(address) as kept:
        runs = kept.runs("gpu7")
        assert [r.taken_at for r in runs][: len(told)] == [float(i) for i in told]
        assert len(kept.series("gpu7")["output_tok_s|chat|1"]) == len(runs)


def test_two_programs_that_open_an_empty_store_at_once_make_it_once(address):
    stores, wrong = [], []

    def open_it():
        try:
            stores.append(opened(address))
        except Exception as e:
            wrong.append(e)

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (len(stores), wrong) == (4, [])
    assert stores[0].record(run())
    for s in stores:
        s.__exit__(None, None, None)


def test_an_old_store_is_brought_up_to_date_step_by_step_and_keeps_its_runs(address):
    with opened(address) as kept:
        kept.record(run())
        steps = [*migrations.STEPS, lambda c: c.exec_driver_sql("ALTER TABLE runs ADD COLUMN colour TEXT")]
        with kept._writing() as c:
            assert migrations.migrate(c, steps) == len(steps)
            assert migrations.version(c) == len(steps)
            assert c.exec_driver_sql("SELECT host, colour FROM runs").all() == [("gpu7", None)]
    with pytest.raises(Refused, match="a newer one wrote it"):
        opened(address)


def test_a_step_that_fails_changes_nothing(address):
    def fails(c):
        c.exec_driver_sql("ALTER TABLE runs ADD COLUMN colour TEXT")
        raise RuntimeError("power cut")

    with opened(address) as kept:
        with pytest.raises(RuntimeError), kept._writing() as c:
            migrations.migrate(c, [*migrations.STEPS, fails])
        with kept._writing() as c:
            assert migrations.version(c) == 1
        assert kept.record(run())


def test_old_runs_are_let_go_and_their_snapshots_sooner(tmp_path):
    blessed = Baseline(name="x", passport=Passport(), conditions=Conditions())
    with Store(str(tmp_path / "h"), clock=lambda: 400 * 86400.0) as kept:
        old, middle, new = (run(at=day * 86400.0, snapshot=blessed) for day in (1, 300, 399))
        for night in (old, middle, new):
            kept.record(night)
        assert kept.snapshot(middle.id) == blessed
        assert kept.prune(days=365, snapshot_days=30) == 1
        assert [r.id for r in kept.runs("gpu7")] == [middle.id, new.id]
        assert (kept.snapshot(middle.id), kept.snapshot(new.id)) == (None, blessed)
        assert len(kept.series("gpu7")["output_tok_s|chat|1"]) == 2


# -- trouble ----------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path):
    with opened(str(tmp_path / "h")) as kept:
        kept.record(run(at=1.0))
        with kept._engine.connect() as c:  # the same connection goes back to the pool: the limit is its own
            pages = c.exec_driver_sql("PRAGMA page_count").scalar()
            c.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(Refused, match=r"cannot be written: .*full"):
            kept.record(run(at=2.0, facts={f"k{i}": "x" * 100 for i in range(10_000)}))
    with opened(str(tmp_path / "h")) as kept:
        assert [r.taken_at for r in kept.runs("gpu7")] == [1.0]


def test_a_store_that_somebody_holds_is_one_sentence(tmp_path):
    path = str(tmp_path / "h")
    with opened(path, wait_s=0.05) as kept:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Refused, match="locked: another program"):
            kept.record(run())
        other.rollback()
        other.close()
        assert kept.record(run())


def test_a_folder_that_cannot_be_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="cannot be opened"):
        opened(str(tmp_path / "file" / "history.sqlite"))


@pytest.mark.parametrize("text", [b"not a database at all" * 100, b"\x00" * 5000])
def test_a_file_that_is_no_database_is_one_sentence(tmp_path, text):
    (tmp_path / "h").write_bytes(text)
    with pytest.raises(Refused, match="cannot be opened: file is not a database"):
        opened(str(tmp_path / "h"))


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_store_that_may_not_be_written_is_one_sentence(tmp_path):
    opened(str(tmp_path / "h")).__exit__(None, None, None)
    (tmp_path / "h").chmod(0o444)
    with pytest.raises(Refused, match="readonly"):
        opened(str(tmp_path / "h"))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://me@db/doctor", "SQLite or PostgreSQL"),
        ("postgresql://me:geheim@127.0.0.1:1/doctor", "cannot be opened: connection"),
        ("nonsense://", "SQLite or PostgreSQL"),
    ],
)
def test_an_address_that_cannot_be_used_is_one_sentence_without_its_password(url, says):
    if url.startswith("postgresql"):
        pytest.importorskip("psycopg", reason="the extra [postgres] is not installed")
    with pytest.raises(Refused, match=says) as e:
        opened(url, wait_s=1.0)
    assert "geheim" not in str(e.value)
