"""Runs the rules, holds what they say against what was measured, links effects to roots, shares out the slow-down.

Three steps after the rules have spoken:

1. Weigh. A fault acts on one factor of the speed (tokens per step, step time, prefill, queue). Where that factor was
   measured and did not move, the fault may be there but is not why it is slow.
2. Link. An effect that a root explains is listed under the root. A leftover cause (an engine release, a dependency)
   keeps the probability that the others leave.
3. Own. Each part of the slow-down gets the strongest root that acts on it, or nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dflash_doctor import rules
from dflash_doctor.causes import causes
from dflash_doctor.model import (
    SPEED,
    Comparison,
    Delta,
    Diagnosis,
    Finding,
    Gap,
    Impact,
    Part,
    ReportVerdict,
    Severity,
    Slowdown,
    Unexplained,
)
from dflash_doctor.physics import DECODE, QUEUE, RESIDUAL, TOKENS, Loss, losses, slowdown
from dflash_doctor.rules.break_even import break_even
from dflash_doctor.rules.calibration import calibrated
from dflash_doctor.rules.leads import bisection, leads
from dflash_doctor.rules.suspects import suspects
from dflash_doctor.rules.upstream import alone, beside
from dflash_doctor.stats import OK

NOT_A_REGRESSION = ("workload.changed", "measurement.artifact")
FAILING = "server.failing"
MOVED = 0.10  # share of the whole loss from which on a factor counts as having moved
UNSEEN_WEIGHT = 0.5  # one whose factor was not measured, where another was and lost
UNMOVED_WEIGHT = 0.35  # a fault whose factor did not move keeps this much of its confidence
LOUD = 0.5  # below this a finding is "to check" (CONTRACTS.md §4)
FELT = 0.97  # a factor nearer to one than this needs no cause
DROPPED = 0.1  # weaker suspicions are not worth a tired person's time


def diagnose(
    c: Comparison,
    target: str,
    *,
    baseline: str | None = None,
    baseline_why: str = "",
    gaps: Iterable[Gap] = (),
    notes: Iterable[str] = (),
) -> Diagnosis:
    """The whole diagnosis of one host."""
    found = tuple(_weighed(f, c, losses(c)) for f in _spoken(c))
    found = beside(_linked(_leftover(found)), c)
    found += tuple(f for f in alone(found, c) if _weighed(f, c, losses(c)) == f)
    found = tuple(_graded(f, c) for f in found if f.confidence >= DROPPED)
    found = tuple(sorted(found, key=_rank))
    slow = _owned(slowdown(c), found) if c.was is not None else None
    verdict = _verdict(c, found)
    if verdict == "healthy":
        found = tuple(replace(f, severity="info") for f in found)
    open_parts = _unexplained(c, slow, found)
    left = leads(c, [f for f in found if f.severity != "info"]) if open_parts else ()
    return Diagnosis(
        target=target,
        verdict=verdict,
        comparison=c,
        findings=tuple(_said(_with_impact(f, slow)) for f in found),
        slowdown=slow,
        gaps=tuple(dict.fromkeys((*gaps, *c.now.gaps, *c.gaps))),
        baseline=baseline,
        baseline_why=baseline_why,
        taken_at=c.now.taken_at,
        notes=tuple(notes),
        unexplained=open_parts,
        leads=left,
        bisection=bisection(left),
        break_even=break_even(c),
    )


def _spoken(c: Comparison) -> tuple[Finding, ...]:
    said = ((name, rule.check(c)) for name, rule in rules.all_rules())
    return tuple(replace(f, cause=name) for name, f in said if f is not None)


# -- weigh ------------------------------------------------------------------------------------------------------------


def _weighed(f: Finding, c: Comparison, loss: Loss) -> Finding:
    """Lower the confidence of a fault whose factor of the speed was measured and did not move."""
    if not f.touches or f.proven or c.was is None or not c.slower:
        return f
    known = [x for x in (loss.of(t) for t in f.touches) if x is not None]
    if not known:
        alone = [d for d in c.delta(*DECODE) if d.concurrency == 1]  # among many, waiting shows in every speed
        if not any(d.verdict == "worse" for d in alone):
            return f
        against = f"it acts on {' and '.join(f.touches)}, which was not measured, and what was measured is slower"
        return replace(f, confidence=f.confidence * UNSEEN_WEIGHT, against=(*f.against, against))
    whole = max((x for x in (loss.tokens, loss.step, loss.prefill, loss.queue) if x is not None), default=0.0)
    if whole <= 0 or max(known) >= MOVED * whole:
        return f
    against = f"{' and '.join(f.touches)} did not get worse, so it cannot be why"
    return replace(f, confidence=f.confidence * UNMOVED_WEIGHT, against=(*f.against, against))


def _leftover(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """A leftover cause keeps the probability that the named roots leave; alone it may be nearly certain."""
    roots = [f for f in found if not _is_leftover(f) and _is_root(f)]
    free = math.prod(1 - f.confidence for f in roots)
    return tuple(replace(f, confidence=f.confidence * free) if _is_leftover(f) else f for f in found)


def _is_leftover(f: Finding) -> bool:
    return bool(getattr(rules.module(f.cause), "LEFTOVER", False))


def _is_root(f: Finding) -> bool:
    return causes()[f.cause].kind == "root"


# -- link -------------------------------------------------------------------------------------------------------------


def _linked(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Put each effect under the strongest root that explains it; its evidence goes along."""
    out = list(found)
    for effect in found:
        if _is_root(effect):
            continue
        owners = [f for f in out if effect.cause in f.effects and f.confidence >= LOUD]
        if not owners:
            continue
        owner = max(owners, key=lambda f: f.confidence)
        out.remove(effect)
        out[out.index(owner)] = replace(owner, evidence=tuple(dict.fromkeys((*owner.evidence, *effect.evidence))))
    present = {f.cause for f in found}
    return tuple(replace(f, effects=tuple(e for e in f.effects if e in present)) for f in out)


# -- grade and rank ---------------------------------------------------------------------------------------------------


def _graded(f: Finding, c: Comparison) -> Finding:
    """Severity under CONTRACTS.md §4: quiet when the speed was measured and is fine, loud only when sure enough."""
    if f.cause == FAILING or (c.now.served is False and FAILING in f.effects):
        return f
    if c.now.served is False and not f.proven:
        # what would make a server slow is not why it does not serve
        return replace(f, severity="info")
    if _as_before(c) and f.severity != "info" and f.cause not in NOT_A_REGRESSION and not f.proven:
        return replace(f, severity="info", against=(*f.against, "the speed was measured and is as before"))
    if f.confidence < LOUD and not c.slower:
        return replace(f, severity="info")
    return f


def _rank(f: Finding) -> tuple[bool, bool, float]:
    return f.severity == "info", f.cause in NOT_A_REGRESSION and f.confidence < LOUD, -f.confidence


# -- own --------------------------------------------------------------------------------------------------------------


def _owned(slow: Slowdown | None, found: Sequence[Finding]) -> Slowdown | None:
    """Give each part of the slow-down the strongest loud root that acts on it."""
    if slow is None or slow.factor >= 1:
        return slow
    crowded = (slow.concurrency or 1) > 1
    return replace(slow, parts=tuple(_own(p, found, crowded) for p in slow.parts))


def _own(part: Part, found: Sequence[Finding], crowded: bool) -> Part:
    if part.factor > FELT:
        return part
    # waiting in a queue shows in every time that a user measures where several ask at once, never in tokens per step
    names = {part.name, QUEUE} if crowded and part.name != TOKENS else {part.name}
    acting = [f for f in found if f.severity != "info" and names.intersection(f.touches)]
    return replace(part, cause=acting[0].cause) if acting else part


def _with_impact(f: Finding, slow: Slowdown | None) -> Finding:
    """The share of the speed that a cause accounts for: its part's factor, or at most that when several compete."""
    if f.impact is not None or slow is None:
        return f
    mine = [p for p in slow.parts if p.cause == f.cause]
    if mine:
        low, high = (mine[0].low, mine[0].high) if len(mine) == 1 else (None, None)
        return replace(f, impact=Impact(math.prod(p.factor for p in mine), low, high))
    theirs = [p for p in slow.parts if p.name in f.touches and p.factor < 1]
    if theirs and f.severity != "info":
        return replace(f, impact=Impact(math.prod(p.factor for p in theirs), bound=True))
    return f


# -- what is left -----------------------------------------------------------------------------------------------------


def _unexplained(c: Comparison, slow: Slowdown | None, found: Sequence[Finding]) -> tuple[Unexplained, ...]:
    """Parts of a real slow-down that no root owns, the heaviest first; an effect owns nothing for good."""
    measures = any(f.cause in NOT_A_REGRESSION and f.severity != "info" for f in found)
    if slow is None or not c.slower or c.unlike or measures:
        return ()
    roots = {f.cause for f in found if _is_root(f)}
    open_parts = [p for p in slow.parts if p.factor <= FELT and p.cause not in roots and p.name != RESIDUAL]
    heaviest = sorted(open_parts, key=lambda p: p.factor)
    return tuple(Unexplained(p.name, p.factor, suspects(c, p.name)) for p in heaviest)


def _said(f: Finding) -> Finding:
    """The confidence as people should take it: how often such findings are right."""
    return f if f.severity == "info" else replace(f, confidence=calibrated(f.confidence))


# -- verdict ----------------------------------------------------------------------------------------------------------


def _verdict(c: Comparison, found: Sequence[Finding]) -> ReportVerdict:
    loud: list[Finding] = [f for f in found if f.severity != "info"]
    first = loud[0] if loud else None
    if first is not None and first.cause in NOT_A_REGRESSION:
        return "not_comparable"
    if first is not None and first.cause == FAILING:
        return "suspect"
    if c.unlike:
        return "not_comparable"
    speeds = [d for d in c.deltas if d.metric in SPEED]
    if c.slower:
        return "regressed"
    if any(d.verdict == "minor" for d in speeds):
        return "minor"
    if loud:
        return "suspect"
    if _saw_nothing(c):
        return "inconclusive"
    if c.was is not None and not any(d.metric in (*SPEED, "accept_length", "step_time_ms") for d in c.deltas):
        return "inconclusive"
    return "inconclusive" if _leans_slower(speeds) else "healthy"


def _as_before(c: Comparison) -> bool:
    """Whether speeds were compared and do not lean to the slow side, one by one or together."""
    speeds = [d for d in c.deltas if d.metric in SPEED]
    minor = any(d.verdict == "minor" for d in speeds)
    return bool(speeds) and not c.slower and not minor and not _leans_slower(speeds)


def _leans_slower(speeds: Sequence[Delta]) -> bool:
    """Whether numbers that cannot tell one by one lean to the slow side together, metric by metric."""
    logs: dict[str, list[float]] = {}
    for d in speeds:
        logs.setdefault(d.metric, []).append(math.log(max(d.factor, 1e-6)))
    unsure = {d.metric for d in speeds if d.verdict == "unsure"}
    return any(math.fsum(x) / len(x) < math.log(1 - OK) for metric, x in logs.items() if metric in unsure)


def _saw_nothing(c: Comparison) -> bool:
    """Whether no engine at work was seen: a text that names one, fine cards or numbers alone are no healthy server."""
    now = c.now
    engine = now.engine and (now.version or now.settings or now.samples or now.counters or now.served is not None)
    return not (engine or now.intervals or (now.samples and c.was is not None))


def severity_of(found: Iterable[Finding]) -> Severity:
    """The gravest severity among findings."""
    order: tuple[Severity, ...] = ("critical", "warning", "info")
    present = {f.severity for f in found}
    return next((s for s in order if s in present), "info")
