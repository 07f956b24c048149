"""data/known_issues.yaml: what is known upstream of slow releases and settings, one row each.

Releases are written `first..last`, both ends in it, each end may be left open: `0.20.0..0.21.0`, `..0.8.5`, `2.7..2.7`
(every 2.7.x). A value is written as it is compared (see known_issues.py): `flashinfer`, `true`, `"!none"`, `">=4"`,
`"~MIG-"`, or a list of which one is enough.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Value = bool | int | float | str
Asked = Value | list[Value]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class When(_Model):
    """Where an issue shows: all of it has to be so, and what a host does not tell is not so."""

    settings: dict[str, Asked] = Field(default_factory=dict)
    packages: dict[str, str] = Field(default_factory=dict, description="name: releases, or `any`: is installed")
    driver: str | None = Field(None, description="releases of the GPU driver")
    cards: list[str] = Field(default_factory=list, description="a product, an architecture or a compute capability")
    model: list[str] = Field(default_factory=list, description="a part of the checkpoint's or architecture's name")
    draft: list[str] = Field(default_factory=list, description="a part of the drafter's name")
    numbers: dict[str, str] = Field(default_factory=dict, description="metric: what its median is")
    readings: dict[str, str] = Field(default_factory=dict, description="counter of a card under load: its median")
    signals: list[str] = Field(default_factory=list, description="ids of log lines, one is enough")


class Issue(_Model):
    """One row."""

    id: str = Field(pattern=r"^[a-z0-9.-]+$")
    title: str = Field(description="what is wrong, as an end of a sentence")
    engine: Literal["vllm", "sglang"] | None = Field(None, description="absent: of either engine")
    versions: str | None = Field(None, description="releases of the engine it was seen in; absent: of any")
    when: When = When()
    cause: str = Field(description="the cause it speaks for")
    acts_on: list[Literal["tokens per step", "step time", "prefill", "queue"]] = Field(min_length=1)
    size: str = Field(description="what it costs, as reported")
    link: str = Field(pattern=r"^https://\S+$")
    way_out: str


class KnownIssuesFile(_Model):
    """The whole file."""

    issues: list[Issue]
