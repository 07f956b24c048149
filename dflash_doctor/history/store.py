"""The history store: SQLite in the user's data folder, or whatever SQLAlchemy address was named (PostgreSQL).

Each write is one short transaction that takes the write lock first, so a killed program leaves whole runs or none, and
programs that write at once wait for each other. What cannot be written is one sentence (Refused).
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pydantic
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from dflash_doctor.formats.baseline import Baseline
from dflash_doctor.formats.report import ReportFile
from dflash_doctor.history import tables as t
from dflash_doctor.history.migrations import migrate
from dflash_doctor.history.runs import Run
from dflash_doctor.model import Refused

WAIT_S = 30.0  # for somebody else's write
TAKEN_UP_S = 20 * 3600.0  # an interrupted check older than this is another night's
SILENT_S = 120.0  # whoever runs a check on another machine and says nothing for so long is gone
DAY_S = 86400.0
LIGHT = [c for c in t.runs.c if c.name != "snapshot"]  # a snapshot is read alone, by `snapshot`


@dataclass(frozen=True)
class Sweep:
    """One check of many hosts."""

    id: str
    began_at: float
    taken_up: bool = False  # it was begun by a program that did not end it


def home() -> Path:
    """Where the history is kept unless told otherwise."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "dflash-doctor" / "history.sqlite"


def opened(address: str | None, *, wait_s: float = WAIT_S) -> Store:
    """The store at an address: none for the user's own, a path, or a URL as postgresql://me@db/doctor."""
    return Store(address, wait_s=wait_s)


class Store:
    """Runs and sweeps. Safe to use from several threads."""

    def __init__(
        self, address: str | None = None, *, wait_s: float = WAIT_S, clock: Callable[[], float] = time.time
    ) -> None:
        self.url = _url(address)
        self._clock = clock
        self.owner = f"{socket.gethostname()}:{os.getpid()}"
        with _said(self.url, "opened"):
            self._engine = _engine(self.url, wait_s)
            with self._writing() as c:
                migrate(c)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._engine.dispose()

    # -- sweeps -------------------------------------------------------------------------------------------------------

    def begin(self, label: str, plan: str, *, afresh: bool = False) -> Sweep:
        """Begin a check, or take up the interrupted one of the same plan; Refused while somebody is at it."""
        now = self._clock()
        open_ = (
            sa.select(t.sweeps)
            .where(t.sweeps.c.plan == plan, t.sweeps.c.ended_at.is_(None))
            .order_by(t.sweeps.c.began_at.desc())
        )
        with _said(self.url, "written"), self._writing() as c:
            if c.dialect.name == "postgresql":  # two programs that begin at once: one waits here, then sees the other
                c.execute(sa.text("LOCK TABLE sweeps IN SHARE ROW EXCLUSIVE MODE"))
            for row in c.execute(open_).all():
                if self._alive(row.owner, row.alive_at, now):
                    raise Refused(f"these hosts are being checked by {row.owner} right now")
                if not afresh and abs(now - row.began_at) < TAKEN_UP_S:
                    this = t.sweeps.c.id == row.id
                    c.execute(sa.update(t.sweeps).where(this).values(owner=self.owner, alive_at=now))
                    return Sweep(row.id, row.began_at, taken_up=True)
            sweep = Sweep(str(uuid.uuid4()), now)
            c.execute(
                sa.insert(t.sweeps).values(
                    id=sweep.id, plan=plan, label=label[: t.NAME], began_at=now, owner=self.owner, alive_at=now
                )
            )
            return sweep

    def _alive(self, owner: str, alive_at: float, now: float) -> bool:
        machine, _, pid = owner.rpartition(":")
        if owner == self.owner:
            return False
        if machine != socket.gethostname():
            return abs(now - alive_at) < SILENT_S  # clocks differ and step: silence is counted either way
        with suppress(OSError, ValueError):
            os.kill(int(pid), 0)
            return True
        return False

    def alive(self, sweep: Sweep) -> None:
        """Say that this check is still being run."""
        self._update(sweep, alive_at=self._clock())

    def end(self, sweep: Sweep) -> None:
        """This check is done: the next one begins afresh."""
        self._update(sweep, ended_at=self._clock())

    def _update(self, sweep: Sweep, **values: float) -> None:
        with _said(self.url, "written"), self._writing() as c:
            c.execute(sa.update(t.sweeps).where(t.sweeps.c.id == sweep.id).values(**values))

    def done(self, sweep: Sweep) -> list[Run]:
        """What this check has already found."""
        return self._runs(sa.select(*LIGHT).where(t.runs.c.sweep == sweep.id).order_by(t.runs.c.number))

    # -- runs ---------------------------------------------------------------------------------------------------------

    def record(self, run: Run, sweep: Sweep | None = None) -> bool:
        """Keep a run, whole or not at all. False when it, or another of its host in this sweep, is there already."""
        row = _row(run, sweep.id if sweep is not None else run.sweep)
        with _said(self.url, "written"), self._writing() as c:
            number = c.scalar(_insert(c)(t.runs).values(**row).on_conflict_do_nothing().returning(t.runs.c.number))
            if number is None:
                return False
            if run.numbers:
                rows = [{"run": number, "series": k[: t.NAME], "value": v} for k, v in run.numbers.items()]
                c.execute(sa.insert(t.numbers), rows)
            return True

    def runs(self, host: str, last: int | None = None) -> list[Run]:
        """The runs of a host, oldest first; only the newest `last` where so many are wanted."""
        found = sa.select(*LIGHT).where(t.runs.c.host == host).order_by(t.runs.c.number.desc())
        return self._runs(found if last is None else found.limit(last))[::-1]

    def snapshot(self, id: str) -> Baseline | None:
        """The baseline that a run could become, as long as it is kept."""
        with _said(self.url, "read"), self._engine.connect() as c:
            body = c.scalar(sa.select(t.runs.c.snapshot).where(t.runs.c.id == id))
        try:
            return None if body is None else Baseline.model_validate_json(zlib.decompress(body))
        except (pydantic.ValidationError, zlib.error):
            return None

    def hosts(self) -> list[tuple[str, int]]:
        """Every host that has runs, and how many."""
        with _said(self.url, "read"), self._engine.connect() as c:
            rows = c.execute(sa.select(t.runs.c.host, sa.func.count()).group_by(t.runs.c.host).order_by(t.runs.c.host))
            return [(r[0], r[1]) for r in rows]

    def series(self, host: str) -> dict[str, list[tuple[int, float]]]:
        """(run number, value) of every series of a host, in order."""
        asked = (
            sa.select(t.numbers.c.series, t.numbers.c.run, t.numbers.c.value)
            .join(t.runs, t.runs.c.number == t.numbers.c.run)
            .where(t.runs.c.host == host)
            .order_by(t.numbers.c.run)
        )
        found: dict[str, list[tuple[int, float]]] = {}
        with _said(self.url, "read"), self._engine.connect() as c:
            for name, number, value in c.execute(asked):
                found.setdefault(name, []).append((number, value))
        return found

    def prune(self, days: float, snapshot_days: float) -> int:
        """Let go of runs older than `days`, and of the snapshots of those older than `snapshot_days`; how many runs."""
        now = self._clock()
        with _said(self.url, "written"), self._writing() as c:
            old = t.runs.c.taken_at < now - days * DAY_S
            c.execute(sa.delete(t.numbers).where(t.numbers.c.run.in_(sa.select(t.runs.c.number).where(old))))
            gone = c.execute(sa.delete(t.runs).where(old)).rowcount
            late = t.runs.c.taken_at < now - snapshot_days * DAY_S
            c.execute(sa.update(t.runs).where(late, t.runs.c.snapshot.is_not(None)).values(snapshot=None))
            kept = sa.select(t.runs.c.sweep).where(t.runs.c.sweep.is_not(None))
            c.execute(sa.delete(t.sweeps).where(t.sweeps.c.ended_at < now - days * DAY_S, t.sweeps.c.id.not_in(kept)))
            return int(gone)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _runs(self, asked: sa.Select[Any]) -> list[Run]:
        with _said(self.url, "read"), self._engine.connect() as c:
            return [_run(row) for row in c.execute(asked)]

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        with self._engine.begin() as c:
            if c.dialect.name == "sqlite":
                c.exec_driver_sql("BEGIN IMMEDIATE")  # the lock at once: a reader that turns writer may deadlock
            yield c


def _url(address: str | None) -> sa.URL:
    if address is None or "://" not in address:
        path = home() if address is None else Path(address)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise Refused(f"the history {path} cannot be opened: {e.strerror}") from e
        return sa.URL.create("sqlite", database=str(path))
    try:
        url = sa.make_url(address)
    except ArgumentError as e:
        raise Refused("the history's address cannot be read; it is a path, or like postgresql://me@db/doctor") from e
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise Refused(f"a history is kept in SQLite or PostgreSQL, not in {url.get_backend_name()}")
    return url


def _engine(url: sa.URL, wait_s: float) -> sa.Engine:
    try:
        if url.get_backend_name() == "postgresql":
            return sa.create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": int(wait_s) or 1})
        engine = sa.create_engine(url, connect_args={"timeout": wait_s, "check_same_thread": False})
    except (NoSuchModuleError, ModuleNotFoundError) as e:
        raise Refused(f"{url.drivername} needs a driver: python -m pip install 'dflash-doctor[postgres]'") from e

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions are begun by us, not by Python's module when it thinks fit
        connection.execute("PRAGMA foreign_keys = ON")

    return engine


def _insert(c: sa.Connection) -> Callable[[sa.Table], Any]:
    """Both dialects spell "do nothing on conflict" alike, each in its own class."""
    return postgresql.insert if c.dialect.name == "postgresql" else sqlite.insert


@contextmanager
def _said(url: sa.URL, what: str) -> Iterator[None]:
    """The store's trouble in one sentence: full, read-only, locked, gone."""
    try:
        yield
    except (DBAPIError, OSError) as e:
        cause = e.orig if isinstance(e, DBAPIError) else e
        why = " ".join(str(cause).split())[:300]
        if "locked" in why:
            why += ": another program has been writing all the time"
        where = url.database if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)
        raise Refused(f"the history {where} cannot be {what}: {why}") from e


def _row(run: Run, sweep: str | None) -> dict[str, Any]:
    snapshot = None if run.snapshot is None else zlib.compress(run.snapshot.model_dump_json(by_alias=True).encode())
    return {
        "id": run.id, "sweep": sweep, "host": run.host[: t.NAME], "taken_at": run.taken_at, "verdict": run.verdict,
        "baseline": run.baseline, "says": run.says, "facts": json.dumps(dict(run.facts)), "snapshot": snapshot,
        "report": None if run.report is None else run.report.model_dump_json(by_alias=True),
    }  # fmt: skip


def _run(row: Any) -> Run:
    report = None
    with suppress(pydantic.ValidationError):  # written by another version: the columns still tell the story
        report = None if row.report is None else ReportFile.model_validate_json(row.report)
    facts = json.loads(row.facts)
    return Run(
        row.host, row.taken_at, row.verdict, report, row.says, row.baseline, facts, {}, None, row.sweep, row.id,
        row.number,
    )  # fmt: skip
