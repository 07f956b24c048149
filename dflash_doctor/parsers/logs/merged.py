"""Events -> Signals: a fact that eight ranks say is one signal with eight ranks; ranks that disagree stay apart."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dflash_doctor.model import Evidence, Signal
from dflash_doctor.parsers.logs.events import REQUEST, UNKNOWN, Event
from dflash_doctor.parsers.logs.templates import template

# fields that differ between ranks and moments without anything being different
VOLATILE = (
    "secs", "ms", "pid", "rank", "done", "pct", "time", "req", "rid", "id", "i", "iter",
    "args", "config", "layer", "fn",
)  # fmt: skip
MEMORY = ("avail", "free")
NAMES = ("spec.weights_skipped", "model.weight_cast")  # said once per parameter

MOST_VARIANTS = 8  # of one text with different data; a line that repeats all day has as many as it likes
MOST_TEXTS = 2000  # different texts of one boot; more are noise that nobody reads
OVERFLOW = "… and other warnings"
# their numbers go into intervals; as signals they only say that they are there
SERIES = (
    "stats.periodic", "stats.iteration", "stats.request", "spec.metrics", "spec.request",
    "sched.decode_batch", "sched.prefill_batch", "sched.req_stats", "api.request_body_logging",
)  # fmt: skip
PROGRESS = ("graph.capture_progress",)  # the last state tells how far it came
QUIET = ("server.shutdown", "server.http_down", "server.shutdown_asked")


class _Group:
    """Equal events so far."""

    def __init__(self, event: Event, text: str) -> None:
        self.first = event
        self.template = text
        self.count = 0
        self.ranks: dict[str, None] = {}
        self.last_line = event.number
        self.level = event.level

    def add(self, event: Event) -> None:
        self.count += event.count
        if event.id in PROGRESS:
            self.first = event
        self.last_line = event.number
        if event.record.rank:
            self.ranks[event.record.rank] = None


def signals(
    events: Iterable[Event], source: str, quiet_from: int | None = None, began: float | None = None
) -> tuple[Signal, ...]:
    """Signals in the order in which they were first said. Errors from `quiet_from` on are the noise of a shutdown."""
    groups: dict[tuple[str, ...], _Group] = {}
    families: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for i, event in enumerate(events):
        if event.id == REQUEST:
            continue
        text = event.id if event.id in SERIES else template(event.record.body)
        if event.id == UNKNOWN and len(families) >= MOST_TEXTS and (UNKNOWN, text) not in families:
            text = OVERFLOW
        quiet = quiet_from is not None and i >= quiet_from
        key = (event.id, text, "quiet" if quiet else event.level, *_data(event))
        if key not in groups:
            family = families.setdefault((event.id, text), [])
            if len(family) >= MOST_VARIANTS:
                key = family[0]
            else:
                family.append(key)
                groups[key] = _Group(event, text)
                if quiet or event.id in QUIET:
                    groups[key].level = "INFO"
        groups[key].add(event)
    return tuple(_signal(g, source, began) for g in groups.values())


def _data(event: Event) -> tuple[str, ...]:
    """The data by which equal texts differ."""
    if event.id in SERIES + NAMES:
        return ()
    data = ((k, _roughly(v) if k in MEMORY else v) for k, v in event.fields.items() if k not in VOLATILE)
    return tuple(f"{k}={v}" for k, v in data)


def _roughly(number: str) -> str:
    """Free memory of two ranks is never equal to the megabyte; a third less is another matter."""
    try:
        return str(round(math.log2(max(float(number), 0.1)) * 2))
    except ValueError:
        return number


def _signal(group: _Group, source: str, began: float | None) -> Signal:
    event = group.first
    record = event.record
    time = record.time
    if time is not None and not record.dated and began is not None:
        time -= began  # a stamp without a year counts from the start of the log
    return Signal(
        id=event.id,
        evidence=Evidence(source, record.text, record.number),
        level=group.level,
        fields=event.fields if event.id not in ("engine.args", "engine.config") else {},
        topics=event.topics,
        count=group.count,
        last_line=group.last_line if group.count > 1 else None,
        ranks=tuple(group.ranks),
        template=group.template,
        time=time,
    )
