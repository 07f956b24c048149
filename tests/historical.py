"""Runs and stores for the tests of the history."""

from __future__ import annotations

import os
import uuid
from contextlib import contextmanager

import sqlalchemy as sa

from dflash_doctor.formats.report import Engine, ReportFile, Slowdown, Tool
from dflash_doctor.history import Run

POSTGRES = os.environ.get("DFLASH_DOCTOR_POSTGRES")  # postgresql://… of a server where databases may be made


def run(host="gpu7", at=1000.0, verdict="healthy", factor=1.0, baseline="tuned", **more) -> Run:
    """One night of one host."""
    slow = Slowdown(metric="output_tok_s", workload="chat", concurrency=1, was=100.0, now=100.0 * factor,
                    factor=factor, low=None, high=None, parts=[])  # fmt: skip
    report = ReportFile(
        tool=Tool(version="0"), target=host, taken_at=None, engine=Engine(name="vllm", version="0.20.1"),
        baseline=baseline, verdict=verdict, slowdown=slow, findings=[], deltas=[], drifts=[], gaps=[],
    )  # fmt: skip
    numbers = more.pop("numbers", {"output_tok_s|chat|1": 100.0 * factor})
    return Run(host, at, verdict, report, f"{verdict}: so it is", baseline, numbers=numbers, **more)


@contextmanager
def postgres_database():
    """The address of a new, empty database, gone afterwards."""
    name = f"doctor_{uuid.uuid4().hex[:12]}"
    url = sa.make_url(POSTGRES).set(drivername="postgresql+psycopg")
    server = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with server.connect() as c:
        c.execute(sa.text(f"CREATE DATABASE {name}"))
    try:
        yield url.set(database=name, drivername="postgresql").render_as_string(hide_password=False)
    finally:
        with server.connect() as c:
            c.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
        server.dispose()
