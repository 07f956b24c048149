"""How a store of any age becomes one of today: a numbered list, each step in the transaction that also counts it.

A list of our own instead of Alembic: the program itself brings the user's store up to date when it opens it, there is
no deployment in which somebody would run a tool with scripts and an ini file of its own, and three tables need no
more than this. A step is never edited once released; the tables of a new store come from the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Column, Connection, Integer, MetaData, Table, func, insert, inspect, select, text

from dflash_doctor.history.tables import TABLES
from dflash_doctor.model import Refused

Step = Callable[[Connection], None]
_version = Table("schema_version", MetaData(), Column("version", Integer, primary_key=True))
ALONE = 0x64666C61  # key of the advisory lock: two programs that find an old store do not both mend it


def _first(connection: Connection) -> None:
    TABLES.create_all(connection)


STEPS: Sequence[Step] = (_first,)


def migrate(connection: Connection, steps: Sequence[Step] = STEPS) -> int:
    """Bring the store up to date inside the caller's write transaction; returns its version. Refused when a newer
    dflash-doctor wrote it."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({ALONE})"))
    _version.create(connection, checkfirst=True)
    at = connection.scalar(select(func.max(_version.c.version))) or 0
    if at > len(steps):
        raise Refused(f"the history has schema {at}; this version knows up to {len(steps)}: a newer one wrote it")
    for number, step in enumerate(steps[at:], at + 1):
        step(connection)
        connection.execute(insert(_version).values(version=number))
    return len(steps)


def version(connection: Connection) -> int:
    """Which schema a store has; 0 when it is empty."""
    if not inspect(connection).has_table(_version.name):
        return 0
    return int(connection.scalar(select(func.max(_version.c.version))) or 0)
