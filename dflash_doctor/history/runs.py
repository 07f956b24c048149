"""One run as the history keeps it: the report that was given, and what one asks by."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dflash_doctor.formats.baseline import Baseline
from dflash_doctor.formats.report import ReportFile
from dflash_doctor.metrics import METRICS
from dflash_doctor.model import Snapshot

UNREACHABLE = "unreachable"
# of the host, what is no fact of its set-up: it is another one in every run
PASSING = ("load", "processes", "affinity", "cpu_mhz", "cgroup", "devices", "taken_at", "gaps", "address", "clock")


@dataclass(frozen=True)
class Run:
    """What one look at one host gave."""

    host: str
    taken_at: float  # seconds since the epoch
    verdict: str  # of the report, or "unreachable"
    report: ReportFile | None = None
    says: str = ""  # the verdict in one sentence, or why there is no report
    baseline: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)  # settings and versions, as text
    numbers: Mapping[str, float] = field(default_factory=dict)  # by series: metric|workload|concurrency
    snapshot: Baseline | None = None
    sweep: str | None = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    number: int | None = None  # its place in the store

    @property
    def factor(self) -> float | None:
        """How fast against the baseline; below 1 is slower."""
        return self.report.slowdown.factor if self.report is not None and self.report.slowdown is not None else None


def run_of(
    host: str, report: ReportFile, says: str, now: Snapshot, taken_at: float, snapshot: Baseline | None = None
) -> Run:
    """The run that a report and the snapshot behind it make."""
    return Run(
        host, taken_at, report.verdict, report, says, baseline=report.baseline, facts=facts(now),
        numbers=numbers(now), snapshot=snapshot,
    )  # fmt: skip


def facts(now: Snapshot) -> dict[str, str]:
    """Settings, versions and hardware, each as a word."""
    found: dict[str, Any] = {"engine.name": now.engine, "engine.version": now.version}
    found |= {k: s.value for k, s in now.settings.items()}
    found |= {f"package.{k}": v for k, v in now.packages.items()}
    found |= {f"host.{k}": v for k, v in now.host.items() if k not in PASSING and isinstance(v, (str, int, float))}
    if names := now.gpu_names():
        found |= {"gpu.name": ", ".join(names), "gpu.count": len(names)}
    return {k: str(v)[:200] for k, v in sorted(found.items()) if v is not None}


def numbers(now: Snapshot) -> dict[str, float]:
    """One value for each series: the mean where prompts or rounds have their own."""
    groups: dict[str, list[float]] = {}
    for s in now.samples:
        if s.workload is not None and s.metric in METRICS and METRICS[s.metric].better != "neither":
            each = "prompt" if s.prompt is not None else "round"
            groups.setdefault(f"{s.metric}|{s.workload}|{s.concurrency or 0:g}|{each}", []).append(s.value)
    means = {k: sum(v) / len(v) for k, v in groups.items()}
    whole = {k.rpartition("|")[0]: v for k, v in means.items() if k.endswith("|prompt")}
    return whole | {k.rpartition("|")[0]: v for k, v in means.items() if k.endswith("|round")}


def seconds(text: str | None) -> float | None:
    """An ISO moment as seconds since the epoch."""
    try:
        return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
