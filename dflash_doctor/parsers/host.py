"""host.json: the machine itself. CPU, NUMA nodes, quota, the engine's processes and where they may run.

    {"uname": "Linux 6.8.0-87-generic x86_64", "virt": "kvm", "cpu_model": "AMD EPYC 7763 64-Core Processor",
     "cpus": 128,
     "cgroup": {"cpu_max": "600000 100000", "nr_periods": 611, "nr_throttled": 608, "sample_s": 61},
     "processes": [{"pid": 5120, "name": "python3", "role": "api_server", "cpu_percent": 100.0, "threads": 171}],
     "affinity": [{"pid": 210, "name": "sglang::scheduler_TP0", "gpu": 0, "cpus": "0-23,96-119"}]}

Everything is optional (CONTRACTS.md §2). Counters of `cgroup` are growth over `sample_s` seconds. What people write by
hand in other types (numbers as text, one process without a list) is brought into these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dflash_doctor.model import Facts, Gap, Unreadable
from dflash_doctor.parsers.documents import read_json

READS: tuple[str, ...] = ("host.json",)

NUMBERS = ("cpus", "sockets", "cpu_mhz", "cpu_max_mhz", "memory_total_kb", "memory_available_kb")
TEXTS = ("uname", "virt", "cpu_model", "governor", "bios", "hostname", "product", "kernel_cmdline", "image")
COUNTED = ("nr_periods", "nr_throttled", "throttled_usec", "sample_s")  # of cgroup
OF_PROCESS = ("pid", "cpu_percent", "threads", "gpu")
# 3700, 3700.0 MHz, 100.0 %, 41.2%
NUMBER = re.compile(r"\s*(?P<n>-?\d{1,15}(?:\.\d{1,9})?)\s*(?:%|MHz|kB|s|us)?\s*")
PACKAGES = "packages"  # some keep them here


def parse(text: str, source: str) -> Facts:
    """The facts of one host. Raises Unreadable when the file is no JSON object."""
    whole = read_json(text, "facts about a host")
    if not isinstance(whole, Mapping):
        raise Unreadable('it is no JSON object: expected {"cpu_model": …, "cpus": …}')
    gaps: list[Gap] = []
    host: dict[str, Any] = {}
    for name, raw in whole.items():
        if isinstance(raw, Mapping) and isinstance(raw.get("error"), str):
            gaps.append(Gap(f"{source}: {name}"[:200], raw["error"][:300]))
        elif name != PACKAGES and raw is not None:
            value = _value(name, raw)
            if value is None:
                gaps.append(Gap(f"{source}: {name}"[:200], f"not what it should be: {str(raw)[:100]}"))
            else:
                host[name] = value
    packages = whole.get(PACKAGES)
    versions = packages if isinstance(packages, Mapping) else {}
    return Facts(host=host, packages={k: v for k, v in versions.items() if isinstance(v, str)}, gaps=tuple(gaps))


def _value(name: str, raw: Any) -> Any:
    """One fact in its own type; None when it cannot be brought into it."""
    if name in NUMBERS:
        return number(raw)
    if name in TEXTS:
        return raw if isinstance(raw, str) else None
    if name == "load":
        parts = raw.split() if isinstance(raw, str) else raw if isinstance(raw, list) else [raw]
        found = [number(p) for p in parts]
        return found if found and None not in found else None
    if name == "numa_nodes":
        nodes = dict(enumerate(raw)) if isinstance(raw, list) else raw
        return {str(k): _cores(v) for k, v in nodes.items()} if isinstance(nodes, Mapping) else None
    if name == "cgroup":
        return _cgroup(raw) if isinstance(raw, Mapping) else None
    if name in ("processes", "affinity"):
        return _rows(raw)
    return raw


def number(raw: Any) -> float | int | None:
    """A number, or a text that is one."""
    if isinstance(raw, bool):
        return None
    if isinstance(raw, (int, float)):
        return raw if raw == raw and abs(raw) != float("inf") else None
    found = NUMBER.fullmatch(raw[:60]) if isinstance(raw, str) else None
    if found is None:
        return None
    return float(found["n"]) if "." in found["n"] else int(found["n"])


def _cores(raw: Any) -> str:
    """`0-23,96-119`, however it was written."""
    return ",".join(str(x) for x in raw) if isinstance(raw, list) else str(raw)


def _cgroup(raw: Mapping[str, Any]) -> dict[str, Any]:
    found = {k: number(v) if k in COUNTED else v for k, v in raw.items()}
    quota = found.get("cpu_max")
    if isinstance(quota, list):
        found["cpu_max"] = " ".join(str(q) for q in quota)
    elif isinstance(quota, (int, float)):  # the quota alone, in the kernel's usual period
        found["cpu_max"] = f"{quota} 100000"
    return {k: v for k, v in found.items() if v is not None}


def _rows(raw: Any) -> list[dict[str, Any]] | None:
    """Processes: a list of rows, one row, or {pid: row}."""
    if isinstance(raw, Mapping):
        raw = [{"pid": k, **v} for k, v in raw.items() if isinstance(v, Mapping)] or [dict(raw)]
    if not isinstance(raw, list):
        return None
    return [_row(r) for r in raw if isinstance(r, Mapping)]


def _row(raw: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for k, v in raw.items():
        value = number(v) if k in OF_PROCESS else _cores(v) if k == "cpus" else v
        if value is not None:
            found[k] = value
    return found
