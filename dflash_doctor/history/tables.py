"""The tables of the history, as they are today; how older stores get there is written in migrations.py.

A run is kept whole, as the report that was given (JSON, schema dflash-doctor/report/1), with the few columns that one
asks by. Its order is its number: the clock of a machine may step back, a number does not.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

TABLES = MetaData()
NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # SQLite counts by itself only in a plain INTEGER
NAME = 400  # characters of a host's name or of a plan's

sweeps = Table(
    "sweeps",
    TABLES,
    Column("id", String(36), primary_key=True),
    Column("plan", String(64), nullable=False, index=True),  # digest of the hosts and how they are looked at
    Column("label", String(NAME), nullable=False),
    Column("began_at", Float, nullable=False),  # seconds since the epoch
    Column("ended_at", Float),
    Column("owner", String(NAME), nullable=False),  # machine:pid of whoever runs it
    Column("alive_at", Float, nullable=False),
)
runs = Table(
    "runs",
    TABLES,
    Column("number", NUMBER, primary_key=True, autoincrement=True),
    Column("id", String(36), nullable=False, unique=True),  # of the run itself: sent twice, it is kept once
    Column("sweep", String(36), ForeignKey("sweeps.id", ondelete="CASCADE")),
    Column("host", String(NAME), nullable=False),
    Column("taken_at", Float, nullable=False),
    Column("verdict", String(20), nullable=False),  # of the report, or "unreachable"
    Column("baseline", String(NAME)),
    Column("report", Text),  # none where the host could not be reached
    Column("says", Text, nullable=False, default=""),  # its verdict in one sentence, or why there is no report
    Column("facts", Text, nullable=False, default="{}"),  # settings and versions, for what changed
    Column("snapshot", LargeBinary),  # zlib of the baseline that this run could become; let go first
    UniqueConstraint("sweep", "host", name="one_run_of_a_host_in_a_sweep"),
    Index("runs_of_a_host", "host", "number"),
)
numbers = Table(
    "numbers",
    TABLES,
    Column("run", NUMBER, ForeignKey("runs.number", ondelete="CASCADE"), primary_key=True),
    Column("series", String(NAME), primary_key=True),  # metric|workload|concurrency
    Column("value", Float, nullable=False),
)
