"""What became of each host over time: every run is kept, read back as a series, and asked for its turning points.

with history.opened(None) as kept:          # SQLite under the user's data folder; or a postgresql:// address
    sweep = kept.begin("nightly", plan)     # one check of many hosts; an interrupted one is taken up again
    kept.record(run, sweep)
    kept.end(sweep)
    runs = kept.runs("gpu7")                # oldest first
"""

from __future__ import annotations

from dflash_doctor.history.changes import Change, changes
from dflash_doctor.history.nights import settled
from dflash_doctor.history.runs import Run, run_of
from dflash_doctor.history.store import Store, Sweep, home, opened
from dflash_doctor.history.trend import Trend, Turn, trends

__all__ = [
    "Change",
    "Run",
    "Store",
    "Sweep",
    "Trend",
    "Turn",
    "changes",
    "home",
    "opened",
    "run_of",
    "settled",
    "trends",
]
