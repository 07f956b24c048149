"""A log of several server starts, split into them; whether each start served.

A start shows by its banner or its arguments; lines that come just before these (SGLang warns while it resolves its
arguments) belong to it too. A supervisor that restarts a crashing server gives one boot per try.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dflash_doctor.parsers.logs.events import FAILED_REQUEST, LOUD, REQUEST, UNKNOWN, Event

BANNERS = ("engine.version", "engine.args")  # printed once by the main process of a start
CONFIG = "engine.config"  # printed by every engine core: a start only when the boot before has come to its end
READY = ("engine.ready",)
HTTP_READY = "engine.http_ready"
ASKED = "server.shutdown_asked"
STATS = ("stats.periodic", "sched.decode_batch")
# a process is gone when one of these is said; nobody asked it to go
FATAL = ("err.engine_dead", "err.scheduler", "err.native_crash", "err.warmup", "graph.capture_failed", "host.watchdog")
# lines that only a start that has got somewhere, or its end, prints: no later start begins before them
BEHIND = ("server.", "kv.size", "mem.", "graph.capture", "err.", "stats.", "sched.prefill_batch", "sched.decode_batch")
SAME_START_S = 5.0  # API servers and nodes of one start print their banners within this
LEAD_LINES = 40  # warnings before SGLang's arguments; the most seen is a dozen
LEAD_S = 120.0  # importing takes half a minute on slow disks


@dataclass
class Boot:
    """The events of one server start."""

    events: list[Event] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    pids: set[str] = field(default_factory=set)
    began: float | None = None
    ready: bool = False
    ended: bool = False
    exited: bool = False  # the main process left with a traceback

    def add(self, event: Event) -> None:
        self.events.append(event)
        if event.id in BANNERS or event.id == CONFIG:
            self.seen.add(event.id)
            self.began = self.began if self.began is not None else event.record.time
        if event.record.pid:
            self.pids.add(event.record.pid)
        self.ready = self.ready or event.id in READY or event.id in STATS
        self.ended = self.ended or event.id in FATAL or event.id == ASKED
        self.exited = self.exited or (event.exception and event.of_main)


def split(events: Iterable[Event], engine: str) -> list[Boot]:
    """The starts of one server, oldest first; one boot when the log shows no start."""
    boots = [Boot()]
    for event in events:
        boot = boots[-1]
        if _begins(event, boot, engine):
            lead = _lead(boot, event)
            boots.append(Boot())
            for moved in lead:
                boots[-1].add(moved)
        boots[-1].add(event)
    return [b for b in boots if b.events]


def _begins(event: Event, boot: Boot, engine: str) -> bool:
    over = boot.ready or boot.ended or boot.exited
    if event.id in BANNERS:
        if event.id in boot.seen or CONFIG in boot.seen or (over and not boot.seen):
            return over or not _together(event, boot)
        return over
    if event.id == CONFIG:
        known = not event.record.pid or event.record.pid in boot.pids
        return CONFIG in boot.seen and over and not known
    # SGLang can die while it resolves its arguments, before it prints any
    return boot.exited and engine == "sglang" and not boot.seen and not _behind(event) and event.id != UNKNOWN


def _together(event: Event, boot: Boot) -> bool:
    if event.record.time is None or boot.began is None:
        return event.record.pid in boot.pids
    return abs(event.record.time - boot.began) <= SAME_START_S


def _lead(boot: Boot, start: Event) -> list[Event]:
    """Takes from the old boot what was said just before the banner and belongs to the new one."""
    at = len(boot.events)
    while at > 0 and len(boot.events) - at < LEAD_LINES:
        event = boot.events[at - 1]
        if _behind(event) or (event.record.pid and event.record.pid != start.record.pid) or _long_before(event, start):
            break
        at -= 1
    lead, boot.events = boot.events[at:], boot.events[:at]
    return lead


def _behind(event: Event) -> bool:
    return (
        event.exception
        or event.id in (REQUEST, FAILED_REQUEST, HTTP_READY, *READY, *BANNERS, CONFIG)
        or event.id.startswith(BEHIND)
        or (event.id == UNKNOWN and event.level in ("ERROR", "CRITICAL"))
    )


def _long_before(event: Event, start: Event) -> bool:
    then, now = event.record.time, start.record.time
    return then is not None and now is not None and now - then > LEAD_S


# -- how it went ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """Whether a boot served, and from which event on its errors are only the noise of a wanted shutdown."""

    served: bool | None
    shutdown_at: int | None = None  # index of the event


def outcome(boot: Boot, engine: str, followed: bool) -> Outcome:
    """`followed`: another start comes after this one in the log."""
    events = boot.events
    came_up = _came_up(events, engine)
    asked = next((i for i, e in enumerate(events) if e.id == ASKED), None)
    if asked is None and came_up is not None:
        asked = next((i for i, e in enumerate(events) if e.id == "server.http_down" and i > came_up), None)
    died = _died(events, came_up, asked)
    if died is not None:
        return Outcome(False)
    if came_up is not None:
        return Outcome(True, asked)
    if asked is not None:
        return Outcome(None, asked)
    started = bool(boot.seen)
    return Outcome(False if followed and started else None)


def _came_up(events: list[Event], engine: str) -> int | None:
    ready = READY if engine == "sglang" else (*READY, HTTP_READY)  # SGLang opens its port before it can answer
    return next((i for i, e in enumerate(events) if e.id in ready or _serves(e)), None)


def _serves(event: Event) -> bool:
    return event.id in (REQUEST, "stats.request") or (
        event.id in STATS and ": 0.0 tokens/s, Running: 0" not in event.record.body
    )


def _died(events: list[Event], came_up: int | None, asked: int | None) -> int | None:
    """The event that ended the server unasked: nothing is served after it."""
    last_served = max((i for i, e in enumerate(events) if _serves(e)), default=-1)
    for i, e in enumerate(events):
        if asked is not None and i > asked:
            return None
        before_ready = came_up is None or i < came_up
        deadly = e.id in FATAL or e.of_main or (before_ready and _breaks_a_start(e))
        if deadly and i > last_served and not (before_ready and came_up is not None):
            return i
    return None


def _breaks_a_start(event: Event) -> bool:
    return event.exception and event.level in LOUD[1:]
