"""`--format json`: what one diagnosis says, for programs. Schema name `dflash-doctor/report/1`.

Fields may be added, never renamed. A number that is not known is null.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dflash_doctor.model import Basis, ReportVerdict, Severity, Verdict


class _Model(BaseModel):
    # a reader of today's reports also reads tomorrow's
    model_config = ConfigDict(extra="allow", frozen=True)


class Tool(_Model):
    name: str = "dflash-doctor"
    version: str


class Engine(_Model):
    name: str | None
    version: str | None


class Part(_Model):
    """One factor of the slow-down."""

    name: str
    factor: float | None
    cause: str | None = Field(description="the finding it is put down to; null where nobody answers for it")
    low: float | None = None
    high: float | None = None
    note: str = ""


class Slowdown(_Model):
    """The headline. The product of the parts is the whole factor."""

    metric: str
    workload: str | None
    concurrency: int | float | None
    was: float | None
    now: float | None
    factor: float | None = Field(description="now/was for a rate, was/now for a time: 0.25 is four times slower")
    low: float | None
    high: float | None
    parts: list[Part]
    note: str = ""


class Impact(_Model):
    """The share of the slow-down that one cause accounts for."""

    factor: float | None
    low: float | None = None
    high: float | None = None
    bound: bool = Field(default=False, description="it accounts for this much at most: several causes compete")


class Evidence(_Model):
    """One line as the host wrote it: untrusted text."""

    source: str
    line: int | None
    text: str


class Fresh(Evidence):
    """A warning that the baseline did not have."""

    level: str
    count: int = 1


class KnownIssue(_Model):
    """Something known upstream that this host shows and the baseline does not."""

    id: str
    title: str
    size: str = Field(description="what it costs, as reported")
    link: str
    way_out: str


class Finding(_Model):
    """One named cause."""

    rank: int
    cause: str
    severity: Severity
    confidence: float | None = Field(description="probability that this cause is real")
    summary: str
    impact: Impact | None
    evidence: list[Evidence]
    effects: list[str]
    next_steps: list[str]
    against: list[str] = Field(default_factory=list)
    touches: list[str] = Field(default_factory=list)
    known_issues: list[KnownIssue] = Field(default_factory=list)


class Delta(_Model):
    """One number under one set of conditions, then and now."""

    metric: str
    unit: str
    was: float | None
    now: float | None
    verdict: Verdict
    note: str
    workload: str | None = None
    concurrency: int | float | None = None
    factor: float | None = None
    low: float | None = None
    high: float | None = None


class Drift(_Model):
    """One setting that differs; null where nothing is known."""

    key: str
    was: Any
    now: Any


class Gap(_Model):
    """Something that could not be seen."""

    what: str
    why: str


class Suspect(_Model):
    """A root that could be behind a loss nothing explains."""

    cause: str
    speaks: bool | None = Field(description="true: something speaks for it; false: against it; null: not seen")
    words: str


class Unexplained(_Model):
    """A loss that no root answers for."""

    part: str
    factor: float | None
    suspects: list[Suspect]


class Lead(_Model):
    """A difference that no finding speaks of."""

    what: str
    weight: float | None = Field(description="0..1: how likely such a change moves the speed")


class Bisection(_Model):
    """The fewest restarts that find the guilty difference."""

    first: list[str] = Field(description="differences to put back together")
    restarts: float | None = Field(description="to expect, all in all")


class Carry(_Model):
    """A setting that another engine or release has to be told to run as the tuned side did."""

    key: str
    title: str
    was: Any
    now: Any
    write: str = Field(description="in the spelling of this engine; empty where it cannot be said there")
    why: str
    weight: float | None


class BreakEven(_Model):
    """Speculation pays where `kept` is above `cost`."""

    kept: float | None = Field(description="tokens per step, bonus counted")
    cost: float | None = Field(description="time of a drafted step over a plain one; a lower bound unless measured")
    measured: bool
    depth: int | None
    best_depth: int | None
    best_gain: float | None


class ReportFile(_Model):
    """The whole document."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)

    schema_: Literal["dflash-doctor/report/1"] = Field(default="dflash-doctor/report/1", alias="schema")
    tool: Tool
    target: str
    taken_at: str | None
    engine: Engine
    baseline: str | None
    baseline_why: str = ""
    basis: Basis = Field(default="none", description="what it was held against")
    verdict: ReportVerdict
    slowdown: Slowdown | None
    findings: list[Finding]
    deltas: list[Delta]
    drifts: list[Drift]
    fresh: list[Fresh] = Field(default_factory=list, description="warnings that the baseline did not have")
    unlike: list[str] = Field(default_factory=list, description="conditions that differ, in words")
    gaps: list[Gap]
    unexplained: list[Unexplained] = Field(default_factory=list)
    leads: list[Lead] = Field(default_factory=list, description="likeliest first; only where a loss is not explained")
    bisection: Bisection | None = None
    break_even: BreakEven | None = None
    carry: list[Carry] = Field(default_factory=list, description="only beside another engine or release")
    notes: list[str] = Field(default_factory=list)
    sources: list[str] = Field(default_factory=list, description="files that were read")
