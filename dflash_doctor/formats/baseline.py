"""A baseline: a snapshot that somebody blessed, as YAML that people read. Schema name `dflash-doctor/baseline/1`.

It keeps what the rules ask of the tuned side: settings with how they were said, numbers by like conditions with one
value per prompt, the cards' medians under load and at idle, log lines, packages, links. Secrets never get in: they
were hidden on the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from statistics import median
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dflash_doctor.model import (
    Counter,
    Evidence,
    Gap,
    GpuReading,
    Interval,
    Sample,
    Setting,
    Signal,
    Snapshot,
)

SCHEMA = "dflash-doctor/baseline/1"
MOST_INTERVALS = 40  # logging intervals kept, spread over the whole log: what they say repeats


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Replaced(_Model):
    """A baseline of this name that was overwritten."""

    when: str
    by: str
    why: str


class Passport(_Model):
    """Who blessed it, when, why, and what it rests on."""

    captured_at: str | None = None
    captured_by: str | None = None
    host: str | None = Field(None, description="the host it was captured from")
    why: str | None = None
    tool: str | None = Field(None, description="version of dflash-doctor that wrote it")
    boots: int = Field(1, description="server starts behind the numbers; one start assumes 3 % of boot noise")
    published: bool = Field(False, description="published single values, not measured by us")
    sources: list[str] = Field(default_factory=list)
    note: str | None = None
    replaced: list[Replaced] = Field(default_factory=list)


class Conditions(_Model):
    """What must be alike before numbers are held against each other."""

    model: str | None = None
    gpus: list[str] = Field(default_factory=list, description="product name of each GPU")
    engine: str | None = None
    engine_version: str | None = None
    driver: str | None = None


class Kept(_Model):
    """One setting."""

    key: str
    value: Any = None
    said: Literal["effective", "asked", "default"] = "asked"
    spelled: str = ""
    line: str | None = Field(None, description="the text that says so")
    assumed: bool = Field(False, description="the story does not say; taken as usual for such a set-up")


class Numbers(_Model):
    """The values of one metric under like conditions."""

    metric: str
    workload: str | None = None
    concurrency: float | None = None
    conditions: dict[str, Any] = Field(default_factory=dict)
    values: list[float]
    prompts: list[str] | None = Field(None, description="id of the prompt behind each value")
    boots: list[str] | None = Field(None, description="server start behind each value")


class Card(_Model):
    """One GPU: medians of its numbers, last of its words."""

    index: int
    load: bool | None = None
    values: dict[str, Any]


class Line(_Model):
    """One log line that was understood, or a warning that was not."""

    id: str
    level: str = "INFO"
    text: str
    source: str = "server.log"
    template: str = ""
    fields: dict[str, str] = Field(default_factory=dict)
    topics: list[str] = Field(default_factory=list)
    count: int = 1


class Count(_Model):
    """A counter's growth, a gauge, or a total."""

    name: str
    value: float
    kind: Literal["growth", "gauge", "total"]
    labels: dict[str, str] = Field(default_factory=dict)
    seconds: float | None = None


class Baseline(_Model):
    """The whole file."""

    schema_: Literal["dflash-doctor/baseline/1"] = Field(default="dflash-doctor/baseline/1", alias="schema")
    name: str
    passport: Passport
    conditions: Conditions
    settings: list[Kept] = Field(default_factory=list)
    numbers: list[Numbers] = Field(default_factory=list)
    cards: list[Card] = Field(default_factory=list)
    packages: dict[str, str] = Field(default_factory=dict)
    links: dict[str, str] = Field(default_factory=dict, description='"0-1": "NV4"')
    host: dict[str, Any] = Field(default_factory=dict)
    counters: list[Count] = Field(default_factory=list)
    intervals: list[dict[str, Any]] = Field(default_factory=list)
    lines: list[Line] = Field(default_factory=list)
    gaps: list[dict[str, str]] = Field(default_factory=list)


# -- snapshot -> baseline ---------------------------------------------------------------------------------------------


def from_snapshot(s: Snapshot, name: str, passport: Passport) -> Baseline:
    """The baseline that keeps what a snapshot knows."""
    return Baseline(
        name=name,
        passport=passport,
        conditions=Conditions(
            model=_text(s.value("model.path")), gpus=list(s.gpu_names()), engine=s.engine, engine_version=s.version,
            driver=_text(s.host.get("driver_version")),
        ),
        settings=[_kept(x) for x in _all_settings(s)],
        numbers=_numbers(s.samples),
        cards=_cards(s.readings),
        packages=dict(s.packages),
        links={f"{a}-{b}": link for (a, b), link in sorted(s.links.items())},
        host={k: v for k, v in s.host.items() if k not in ("taken_at", "gaps") and _plain(v)},
        counters=[
            Count(name=c.name, value=c.value, kind=c.kind, labels=dict(c.labels), seconds=c.seconds) for c in s.counters
        ],
        intervals=[_interval(i) for i in _telling(s.intervals)],
        lines=[_line(x) for x in s.signals],
        gaps=[{"what": g.what, "why": g.why} for g in s.gaps],
    )  # fmt: skip


def _all_settings(s: Snapshot) -> Iterable[Setting]:
    """The strongest saying of each key, and what was asked for where something else runs."""
    yield from s.settings.values()
    for key, asked in s.asked.items():
        if s.settings.get(key) != asked:
            yield asked


def _kept(s: Setting) -> Kept:
    value = list(s.value) if isinstance(s.value, tuple) else s.value
    line = s.evidence.text[:400] if s.evidence else None
    return Kept(key=s.key, value=value, said=s.said, spelled=s.spelled, line=line)


def _numbers(samples: Iterable[Sample]) -> list[Numbers]:
    groups: dict[tuple[Any, ...], list[Sample]] = {}
    for s in samples:
        like = (s.metric, s.workload, s.concurrency, repr(sorted(s.conditions.items())), s.prompt is None)
        groups.setdefault(like, []).append(s)
    return [
        Numbers(
            metric=g[0].metric, workload=g[0].workload, concurrency=g[0].concurrency, conditions=dict(g[0].conditions),
            values=[float(f"{s.value:.6g}") for s in g],
            prompts=[s.prompt or "" for s in g] if any(s.prompt for s in g) else None,
            boots=[s.boot or "" for s in g] if any(s.boot for s in g) else None,
        )
        for g in groups.values()
    ]  # fmt: skip


def _cards(readings: Iterable[GpuReading]) -> list[Card]:
    groups: dict[tuple[int, bool | None], list[GpuReading]] = {}
    for r in readings:
        groups.setdefault((r.index, r.load), []).append(r)
    return [Card(index=i, load=load, values=_typical(rows)) for (i, load), rows in groups.items()]


def _typical(rows: list[GpuReading]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key in {k for r in rows for k in r.values}:
        seen = [r.values[key] for r in rows if r.values.get(key) is not None and not isinstance(r.values[key], Gap)]
        if not seen:
            values[key] = None
        elif all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in seen):
            values[key] = float(f"{median(seen):.6g}")
        elif key == "clocks_event_reasons.active":
            values[key] = max(set(map(str, seen)), key=[str(v) for v in seen].count)
        else:
            values[key] = _unfrozen(seen[-1])
    return dict(sorted(values.items()))


def _interval(i: Interval) -> dict[str, Any]:
    kept = {f.name: getattr(i, f.name) for f in fields(i) if f.name != "time" and not (f.name == "steady" and i.steady)}
    return {k: _unfrozen(v) for k, v in kept.items() if v not in (None, (), "")}


def _telling(rows: Iterable[Interval]) -> Iterable[Interval]:
    """Steady ones; and since prompts arrive in others, which alone may tell what the prefix cache found, those too."""
    rows = list(rows)
    yield from _spread([i for i in rows if i.steady])
    yield from _spread([i for i in rows if not i.steady and i.prefix_hit_rate is not None])


def _spread(rows: list[Interval]) -> list[Interval]:
    step = max(1, -(-len(rows) // MOST_INTERVALS))
    return rows[::step]


def _line(s: Signal) -> Line:
    return Line(
        id=s.id, level=s.level, text=s.evidence.text[:600], source=s.evidence.source, template=s.template[:600],
        fields=dict(s.fields), topics=list(s.topics), count=s.count,
    )  # fmt: skip


# -- baseline -> snapshot ---------------------------------------------------------------------------------------------


def to_snapshot(b: Baseline) -> Snapshot:
    """The snapshot that a baseline keeps."""
    said = [_setting(k) for k in b.settings]
    order = {"default": 0, "asked": 1, "effective": 2}
    strongest: dict[str, Setting] = {}
    for s in sorted(said, key=lambda s: order[s.said]):
        strongest[s.key] = s
    return Snapshot(
        name=b.name,
        engine=b.conditions.engine,
        version=b.conditions.engine_version,
        taken_at=b.passport.captured_at,
        settings=strongest,
        asked={s.key: s for s in said if s.said == "asked"},
        signals=tuple(_signal(x) for x in b.lines),
        samples=tuple(_samples(b.numbers)),
        intervals=tuple(_from_interval(i) for i in b.intervals),
        counters=tuple(Counter(c.name, c.value, c.kind, c.labels, c.seconds) for c in b.counters),
        readings=tuple(_readings(b)),
        packages=b.packages,
        host=b.host | ({"driver_version": b.conditions.driver} if b.conditions.driver else {}),
        links={_pair(k): v for k, v in b.links.items()},
        gaps=tuple(Gap(g.get("what", "?"), g.get("why", "?")) for g in b.gaps),
        served=True,
        sources=("baseline",),
        published=b.passport.published,
    )


def _setting(k: Kept) -> Setting:
    value = tuple(k.value) if isinstance(k.value, list) else k.value
    note = " (assumed)" if k.assumed else ""
    text = k.line or f"{k.spelled or k.key} {k.value}"
    return Setting(k.key, value, k.said, k.spelled, Evidence("settings", text + note))


def _signal(x: Line) -> Signal:
    return Signal(x.id, Evidence(x.source, x.text), x.level, x.fields, tuple(x.topics), x.count, template=x.template)


def _samples(numbers: Iterable[Numbers]) -> Iterable[Sample]:
    for n in numbers:
        for i, value in enumerate(n.values):
            yield Sample(
                n.metric, value, n.workload, n.concurrency, _at(n.prompts, i), _at(n.boots, i), None, n.conditions,
                Evidence("numbers", f"{n.metric} {value:g}" + (f" ({n.workload})" if n.workload else "")),
            )  # fmt: skip


def _at(values: list[str] | None, i: int) -> str | None:
    return (values[i] or None) if values and i < len(values) else None


def _from_interval(row: Mapping[str, Any]) -> Interval:
    known = {f.name for f in fields(Interval)}
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items() if k in known}
    return replace(Interval(line=0, time=None), **values)


def _readings(b: Baseline) -> Iterable[GpuReading]:
    for c in b.cards:
        yield GpuReading(c.index, 0.0, c.load, c.values, "cards")
    if not b.cards:  # published profiles only name the cards
        for i, name in enumerate(b.conditions.gpus):
            yield GpuReading(i, 0.0, None, {"name": name}, "conditions")


def _pair(text: str) -> tuple[int, int]:
    a, _, b = text.partition("-")
    return int(a), int(b)


def _unfrozen(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_unfrozen(v) for v in value]
    return dict(value) if isinstance(value, Mapping) else value


def _plain(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool, list, dict))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
