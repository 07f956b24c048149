"""What several rules ask of a comparison, in the words of the page."""

from __future__ import annotations

from collections.abc import Iterable

from dflash_doctor import settings
from dflash_doctor.model import Comparison, Delta, Drift, Evidence, Setting, Signal

MATTERS = 0.3  # speed weight of a setting from which on a change of it is worth naming


def new(c: Comparison, *ids: str) -> tuple[Signal, ...]:
    """Signals of these ids that the baseline did not have in the same words; all of them without a baseline."""
    return tuple(s for s in c.now.find(*ids) if not _had(c, s))


def new_about(c: Comparison, *topics: str) -> tuple[Signal, ...]:
    """Signals of these topics that the baseline did not have in the same words."""
    return tuple(s for s in c.now.about(*topics) if not _had(c, s))


def lost(c: Comparison, *ids: str) -> tuple[Signal, ...]:
    """Signals of the baseline that this host does not give any more, in whatever words."""
    return () if c.was is None else tuple(s for s in c.was.find(*ids) if not c.now.find(s.id))


def distinct(signals: Iterable[Signal]) -> list[Signal]:
    """Each signal once, in order; several questions may find the same line."""
    return list({(s.id, s.evidence): s for s in signals}.values())


def _had(c: Comparison, signal: Signal) -> bool:
    return c.was is not None and any(s.id == signal.id and s.template == signal.template for s in c.was.find(signal.id))


def proof(*things: Signal | Setting | Drift | Delta | Evidence | None) -> tuple[Evidence, ...]:
    """The lines behind signals, settings, drifts and numbers, each once."""
    return tuple(dict.fromkeys(e for t in things for e in _lines(t)))


def proofs(things: Iterable[Signal | Setting | Drift | Delta | Evidence | None]) -> tuple[Evidence, ...]:
    """The same for a list."""
    return proof(*things)


def _lines(thing: Signal | Setting | Drift | Delta | Evidence | None) -> tuple[Evidence, ...]:
    if thing is None:
        return ()
    if isinstance(thing, Evidence):
        return (thing,)
    if isinstance(thing, Delta):
        return thing.evidence[:1]
    if isinstance(thing, Drift):
        found = _lines(thing.now)
        return found or (Evidence("comparison", thing.words()),)
    return () if thing.evidence is None else (thing.evidence,)


def same_engine(c: Comparison) -> bool:
    """Whether both sides run the same engine."""
    return c.was is not None and c.was.engine == c.now.engine


def others(c: Comparison, *keys: str, but: Iterable[str] = ()) -> list[Drift]:
    """Settings of a family that differ within one engine and may move speed, beside those a rule knows by name.

    Somebody or the engine must have said one of the two: two defaults that differ are the release's doing.
    """
    left = set(but)
    return [
        d
        for d in c.drift(*keys)
        if same_engine(c)
        and d.key not in left
        and d.was is not None
        and d.now is not None
        and {d.was.said, d.now.said} != {"default"}
        and settings.speed_weight(d.key) >= MATTERS
    ]


def switched_off(d: Drift) -> bool:
    """Whether a switch that was on is off now."""
    return d.was is not None and d.now is not None and d.was.value is True and d.now.value is False


def put_back(drift: Drift) -> str:
    """One step a tired person can type: the setting as it was, in the spelling of this engine."""
    was, now = drift.was, drift.now
    spelled = now.spelled if now and now.spelled else was.spelled if was and was.spelled else drift.key
    if was is None:
        return f"take {spelled} out again"
    if isinstance(was.value, bool):
        return f"set {spelled} back to {'on' if was.value else 'off'}"
    return f"put {spelled} back to {was.value}"
