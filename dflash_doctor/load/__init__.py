"""The load rounds: a short, bounded, greedy load whose numbers can be held against those of another day."""

from __future__ import annotations

from dflash_doctor.load.ab import Ab, ab
from dflash_doctor.load.asking import NotNow
from dflash_doctor.load.battery import preset, workload
from dflash_doctor.load.deciding import Against, against
from dflash_doctor.load.rounds import Progress, run

__all__ = ["Ab", "Against", "NotNow", "Progress", "ab", "against", "preset", "run", "workload"]
