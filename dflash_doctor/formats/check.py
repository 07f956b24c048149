"""`check --format json`: what a look at many hosts says, for programs. Schema name `dflash-doctor/check/1`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from dflash_doctor.formats.report import Finding, ReportFile
from dflash_doctor.model import ReportVerdict

# gravest first; "unreachable" is of a host that gave no report at all
HostVerdict = Literal[ReportVerdict, "unreachable"]
GRAVITY: tuple[HostVerdict, ...] = (
    "regressed", "suspect", "unreachable", "inconclusive", "not_comparable", "unconfirmed", "minor", "healthy",
)  # fmt: skip
WORST = (1, 2, 0)  # of many hosts 1 wins over 2, 2 over 0 (CONTRACTS.md §5)


class _Model(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)


class Checked(_Model):
    """One host."""

    name: str
    groups: list[str] = Field(default_factory=list)
    verdict: HostVerdict
    status: int = Field(description="the exit status that `diagnose` would end with")
    says: str = Field(description="the verdict in one sentence, or why there is no report")
    seconds: float = 0.0
    taken_up: bool = Field(False, description="looked at by an earlier, interrupted run of the same check")
    beside: str = Field("", description="what its siblings say about a release that it blames")
    report: ReportFile | None = None

    @property
    def loud(self) -> list[Finding]:
        """Findings that somebody should look at."""
        return [] if self.report is None else [f for f in self.report.findings if f.severity != "info"]

    @property
    def factor(self) -> float | None:
        """How fast against the baseline; below 1 is slower."""
        return None if self.report is None or self.report.slowdown is None else self.report.slowdown.factor


class CheckFile(_Model):
    """The whole document, gravest host first."""

    schema_: Literal["dflash-doctor/check/1"] = Field(default="dflash-doctor/check/1", alias="schema")
    label: str = ""
    began_at: str | None = None
    seconds: float = 0.0
    status: int = 0
    hosts: list[Checked]

    def count(self, *verdicts: str) -> int:
        """How many hosts have one of these verdicts."""
        return sum(h.verdict in verdicts for h in self.hosts)


def sorted_by_gravity(hosts: Iterable[Checked]) -> list[Checked]:
    """The gravest verdict first, inside one the slowest, then by name."""
    return sorted(hosts, key=lambda h: (GRAVITY.index(h.verdict), h.factor if h.factor is not None else 1.0, h.name))


def worst(statuses: Iterable[int]) -> int:
    """The exit status of many hosts."""
    present = set(statuses)
    return next((s for s in WORST if s in present), 0)
