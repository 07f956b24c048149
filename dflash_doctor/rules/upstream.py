"""Known issues that this host shows and the tuned side did not: they speak for their cause, never loudly alone.

A rule tells what it sees; that upstream has seen the same on this release makes it a little surer. Where no rule speaks
of an issue's cause and part of a measured loss has no answer yet, the issue is worth a look, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dflash_doctor.formats.known_issues import Issue
from dflash_doctor.known_issues import known_issues, speaks_of
from dflash_doctor.model import Comparison, Finding, KnownIssue
from dflash_doctor.rules.seen import proofs, same_engine

DOUBT_LEFT = 0.8  # of the doubt in a finding, once upstream knows the same of this release and setting
ALONE = 0.3  # such a release and setting are common, and most of their servers are as fast as they were
SURE = 0.5  # a finding this sure answers for its parts of the loss (CONTRACTS.md §4)
MOST = 3  # issues that are named where no rule speaks


def beside(found: Sequence[Finding], c: Comparison) -> tuple[Finding, ...]:
    """The findings, each with the known issues of its cause or of the effects that it explains."""
    new = _new(c)
    return tuple(_joined(f, [i for i in new if i.cause in (f.cause, *f.effects)]) for f in found)


def _joined(f: Finding, issues: Sequence[Issue]) -> Finding:
    if not issues:
        return f
    return replace(f, known=tuple(map(_told, issues)), confidence=1 - (1 - f.confidence) * DOUBT_LEFT)


def alone(found: Sequence[Finding], c: Comparison) -> tuple[Finding, ...]:
    """To check: issues of causes that nobody speaks of, where they act on a measured loss that has no answer yet."""
    if not c.slower or not same_engine(c):  # beside another engine each issue of this one would be news
        return ()
    named = {name for f in found for name in (f.cause, *f.effects)}
    answered = {part for f in found if f.severity != "info" and f.confidence >= SURE for part in f.touches}
    left = [i for i in _new(c) if i.cause not in named and not answered.issuperset(i.acts_on)]
    causes = list(dict.fromkeys(i.cause for i in left))[:MOST]
    return tuple(_to_check(cause, [i for i in left if i.cause == cause], c) for cause in causes)


def _to_check(cause: str, issues: Sequence[Issue], c: Comparison) -> Finding:
    keys = dict.fromkeys(key for i in issues for key in i.when.settings)
    return Finding(
        cause=cause,
        summary="upstream knows an issue of this release or setting; nothing else speaks for it here",
        confidence=ALONE,
        severity="info",
        evidence=proofs((*c.now.find("engine.version")[:1], *(c.now.settings.get(k) for k in keys))),
        next_steps=tuple(dict.fromkeys(i.way_out for i in issues)),
        touches=tuple(dict.fromkeys(part for i in issues for part in i.acts_on)),
        known=tuple(map(_told, issues)),
    )


def _new(c: Comparison) -> list[Issue]:
    now = [i for i in known_issues() if speaks_of(i, c.now)]
    return now if c.was is None else [i for i in now if not speaks_of(i, c.was)]


def _told(i: Issue) -> KnownIssue:
    return KnownIssue(i.id, i.title, i.size, i.link, i.way_out)
