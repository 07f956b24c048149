"""The report for programs: one JSON document, schema dflash-doctor/report/1 (formats/report.py)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from dflash_doctor import __version__
from dflash_doctor.formats import report as form
from dflash_doctor.metrics import METRICS
from dflash_doctor.model import (
    Bisection,
    BreakEven,
    Delta,
    Diagnosis,
    Drift,
    Evidence,
    Finding,
    Impact,
    KnownIssue,
    Setting,
    Slowdown,
    Unexplained,
)


def render(d: Diagnosis) -> str:
    """The document, with a newline at its end. It can be printed anywhere: what does not print is escaped."""
    text = json.dumps(document(d).model_dump(by_alias=True), ensure_ascii=False, allow_nan=False, indent=2)
    # beyond what JSON asks for: marks that reorder or restyle a line of a terminal
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text) + "\n"


def document(d: Diagnosis) -> form.ReportFile:
    """The report as its stored shape."""
    return form.ReportFile(
        tool=form.Tool(version=__version__),
        target=_text(d.target),
        taken_at=_maybe(d.taken_at),
        engine=form.Engine(name=_maybe(d.now.engine), version=_maybe(d.now.version)),
        baseline=_maybe(d.baseline),
        baseline_why=_text(d.baseline_why),
        basis=d.comparison.basis,
        verdict=d.verdict,
        slowdown=None if d.slowdown is None else _slowdown(d.slowdown),
        findings=[_finding(i, f) for i, f in enumerate(d.findings, 1)],
        deltas=[_delta(x) for x in d.comparison.deltas],
        drifts=[_drift(x) for x in d.comparison.drifts],
        fresh=[
            form.Fresh(**_evidence(s.evidence).model_dump(), level=_text(s.level), count=s.count)
            for s in d.comparison.fresh
        ],
        unlike=[_text(x) for x in d.comparison.unlike],
        gaps=[form.Gap(what=_text(g.what), why=_text(g.why)) for g in d.gaps],
        unexplained=[_unexplained(u) for u in d.unexplained],
        leads=[form.Lead(what=_text(x.what), weight=_number(x.weight)) for x in d.leads],
        bisection=None if d.bisection is None else _bisection(d.bisection),
        break_even=None if d.break_even is None else _break_even(d.break_even),
        carry=[
            form.Carry(
                key=_text(x.key),
                title=_text(x.title),
                was=_value(x.was),
                now=_value(x.now),
                write=_text(x.write),
                why=_text(x.why),
                weight=_number(x.weight),
            )
            for x in d.carry
        ],
        notes=[_text(n) for n in d.notes],
        sources=[_text(s) for s in d.now.sources],
    )


def _slowdown(s: Slowdown) -> form.Slowdown:
    return form.Slowdown(
        metric=s.metric, workload=_maybe(s.workload), concurrency=_many(s.concurrency), was=_number(s.was),
        now=_number(s.now), factor=_number(s.factor), low=_number(s.low), high=_number(s.high), note=_text(s.note),
        parts=[
            form.Part(
                name=_text(p.name), factor=_number(p.factor), cause=p.cause, low=_number(p.low), high=_number(p.high),
                note=_text(p.note),
            )
            for p in s.parts
        ],
    )  # fmt: skip


def _finding(rank: int, f: Finding) -> form.Finding:
    return form.Finding(
        rank=rank, cause=f.cause, severity=f.severity, confidence=_number(f.confidence), summary=_text(f.summary),
        impact=None if f.impact is None else _impact(f.impact), evidence=[_evidence(e) for e in f.evidence],
        effects=list(f.effects), next_steps=[_text(s) for s in f.next_steps], against=[_text(a) for a in f.against],
        touches=list(f.touches), known_issues=[_known(k) for k in f.known],
    )  # fmt: skip


def _known(k: KnownIssue) -> form.KnownIssue:
    return form.KnownIssue(id=k.id, title=k.title, size=k.size, link=k.link, way_out=k.way_out)


def _unexplained(u: Unexplained) -> form.Unexplained:
    suspects = [form.Suspect(cause=s.cause, speaks=s.speaks, words=_text(s.words)) for s in u.suspects]
    return form.Unexplained(part=u.part, factor=_number(u.factor), suspects=suspects)


def _bisection(b: Bisection) -> form.Bisection:
    return form.Bisection(first=[_text(x.what) for x in b.first], restarts=_number(b.restarts))


def _break_even(b: BreakEven) -> form.BreakEven:
    return form.BreakEven(
        kept=_number(b.kept), cost=_number(b.cost), measured=b.measured, depth=b.depth, best_depth=b.best_depth,
        best_gain=_number(b.best_gain),
    )  # fmt: skip


def _impact(i: Impact) -> form.Impact:
    return form.Impact(factor=_number(i.factor), low=_number(i.low), high=_number(i.high), bound=i.bound)


def _evidence(e: Evidence) -> form.Evidence:
    return form.Evidence(source=_text(e.source), line=e.line, text=_text(e.text))


def _delta(d: Delta) -> form.Delta:
    row = METRICS.get(d.metric)
    return form.Delta(
        metric=d.metric, unit="" if row is None else row.unit, workload=_maybe(d.workload),
        concurrency=_many(d.concurrency), was=_number(d.was), now=_number(d.now), verdict=d.verdict,
        factor=_number(d.factor), low=_number(d.low), high=_number(d.high), note=_text(d.note),
    )  # fmt: skip


def _drift(d: Drift) -> form.Drift:
    return form.Drift(key=_text(d.key), was=_setting(d.was), now=_setting(d.now))


def _setting(s: Setting | None) -> Any:
    return None if s is None else _value(s.value)


def _value(x: object) -> Any:
    """A value of a setting as JSON knows it."""
    if x is None or isinstance(x, (bool, int)):
        return x
    if isinstance(x, float):
        return _number(x)
    if isinstance(x, Mapping):
        return {_text(k): _value(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [_value(v) for v in x]
    return _text(x)


def _number(x: float | None) -> float | None:
    # JSON has no word for infinity or "not a number"
    return None if x is None or not math.isfinite(x) else x


def _many(x: float | None) -> int | float | None:
    """A concurrency: whole as people write it."""
    known = _number(x)
    return int(known) if known is not None and known == int(known) else known


def _maybe(x: object) -> str | None:
    return None if x is None else _text(x)


def _text(x: object) -> str:
    # half of a character pair, as a broken decoder leaves it, cannot be written as UTF-8
    return str(x).encode("utf-8", errors="replace").decode("utf-8")
