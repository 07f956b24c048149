"""`history HOST --format json`: how a host went over time. Schema name `dflash-doctor/history/1`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Model(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)


class Night(_Model):
    """One run."""

    taken_at: str
    verdict: str
    says: str = Field(description="the verdict in one sentence")
    baseline: str | None = None
    engine: str | None = None
    causes: list[str] = Field(default_factory=list, description="that somebody should look at, likeliest first")


class Changed(_Model):
    """A setting or a version that is another one since then; null: not known."""

    key: str
    was: str | None
    now: str | None


class Turn(_Model):
    """A change of level."""

    at: int = Field(description="index of the first value of the new level")
    taken_at: str
    before: float = Field(description="mean of the level before")
    after: float
    factor: float | None = Field(description="of the speed: below 1 is slower")
    p: float
    changed: list[Changed] = Field(default_factory=list)


class Series(_Model):
    """One number over time."""

    metric: str
    workload: str
    concurrency: float
    taken_at: list[str]
    values: list[float]
    turns: list[Turn] = Field(default_factory=list)


class HistoryFile(_Model):
    """The whole document; nights and values oldest first."""

    schema_: Literal["dflash-doctor/history/1"] = Field(default="dflash-doctor/history/1", alias="schema")
    host: str
    nights: list[Night]
    series: list[Series] = Field(default_factory=list)
