"""Events -> Signals: a fact that eight ranks say is one signal with eight ranks; ranks that disagree stay apart."""

from __future__ import annotations

from collections.abc import Iterable

from dflash_doctor.model import Evidence, Signal
from dflash_doctor.parsers.logs.events import REQUEST, Event
from dflash_doctor.parsers.logs.templates import template

# fields that differ between ranks and moments without anything being different
VOLATILE = (
    "secs", "ms", "pid", "rank", "done", "pct", "time", "avail", "free", "req", "rid", "id", "i", "iter",
    "args", "config", "layer", "fn",
)  # fmt: skip
NAMES = ("spec.weights_skipped", "model.weight_cast")  # said once per parameter

MOST_VARIANTS = 8  # of one text with different data; a line that repeats all day has as many as it likes
# their numbers go into intervals; as signals they only say that they are there
SERIES = (
    "stats.periodic", "stats.iteration", "stats.request", "spec.metrics", "spec.request",
    "sched.decode_batch", "sched.prefill_batch", "sched.req_stats", "api.request_body_logging",
)  # fmt: skip
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
        self.last_line = event.number
        if event.record.rank:
            self.ranks[event.record.rank] = None


def signals(
    events: Iterable[Event], source: str, quiet_from: int | None = None, began: float | None = None
) -> tuple[Signal, ...]:
    """Signals in the order in which they were first said. Errors from `quiet_from` on are the noise of a shutdown."""
    groups: dict[tuple[str, ...], _Group] = {}
    variants: dict[tuple[str, str], int] = {}
    for i, event in enumerate(events):
        if event.id == REQUEST:
            continue
        text = event.id if event.id in SERIES else template(event.record.body)
        known = (
            ()
            if event.id in SERIES + NAMES
            else tuple(f"{k}={v}" for k, v in event.fields.items() if k not in VOLATILE)
        )
        quiet = quiet_from is not None and i >= quiet_from
        key = (event.id, text, "quiet" if quiet else event.level, *known)
        if key not in groups:
            family = (event.id, text)
            if variants.get(family, 0) >= MOST_VARIANTS:
                key = next(k for k in groups if k[:2] == family)
            else:
                variants[family] = variants.get(family, 0) + 1
                groups[key] = _Group(event, text)
                if quiet or event.id in QUIET:
                    groups[key].level = "INFO"
        groups[key].add(event)
    return tuple(_signal(g, source, began) for g in groups.values())


def _signal(group: _Group, source: str, began: float | None) -> Signal:
    event = group.first
    record = event.record
    time = record.time
    if time is not None and not record.dated and began is not None:
        time -= began  # a stamp without a year counts from the start of the log
    return Signal(
        id=event.id,
        evidence=Evidence(source, record.text[:LONGEST_TEXT], record.number),
        level=group.level,
        fields=event.fields if event.id not in ("engine.args", "engine.config") else {},
        topics=event.topics,
        count=group.count,
        last_line=group.last_line if group.count > 1 else None,
        ranks=tuple(group.ranks),
        template=group.template,
        time=time,
    )


LONGEST_TEXT = 1200
