"""Many hosts: which ones (hosts.yaml, lists, patterns), a few at a time, each with its deadline, siblings compared."""

from __future__ import annotations

from dflash_doctor.fleet.inventory import PATTERN, Wanted, plan, read, wanted
from dflash_doctor.fleet.pool import Late, Pool, Visit
from dflash_doctor.fleet.siblings import beside

__all__ = ["PATTERN", "Late", "Pool", "Visit", "Wanted", "beside", "plan", "read", "wanted"]
