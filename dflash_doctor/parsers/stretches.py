"""What counters grew by between scrapes, and how several short stretches become one long enough to speak of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dflash_doctor.model import Counter
from dflash_doctor.parsers.scrapes import Read, Reading, Scrape, Series

WITNESS = 10.0  # seconds: the interval at which the engines themselves sum up; scrapes closer together are one witness


@dataclass
class Stretch:
    """The time between two scrapes; or, with `seconds` None and `whole`, everything since the server started."""

    grown: dict[Series, float]
    last: dict[Series, Reading]  # what the scrape at its end said
    seconds: float | None
    whole: bool = False
    names: dict[str, list[Series]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for series in self.last:
            self.names.setdefault(series[0], []).append(series)

    def growth(self, name: str, **labels: str) -> float | None:
        """Growth of a counter, summed over what is not asked for; None when the scrape does not have it."""
        wanted = set(labels.items())
        found = [self.grown[s] for s in self.names.get(name, ()) if s in self.grown and wanted <= set(s[1])]
        return sum(found) if found else None

    def gauge(self, name: str) -> list[tuple[float, Reading]]:
        """The values of a gauge at the end, one per engine."""
        return [(self.last[s].value, self.last[s]) for s in self.names.get(name, ())]

    def line(self, name: str) -> Reading | None:
        """Where a name stands, for evidence."""
        series = self.names.get(name)
        return self.last[series[0]] if series else None


def between(read: Read) -> list[Stretch]:
    """One stretch for each pair of neighbouring scrapes; of a lone scrape, one since the start."""
    if len(read.scrapes) == 1:
        only = read.scrapes[0]
        grown = {s: r.value for s, r in only.values.items() if read.kind(s[0]) == "counter"}
        return [Stretch(grown, only.values, None, whole=True)]
    pairs = zip(read.scrapes, read.scrapes[1:], strict=False)
    return [Stretch(_growth(a, b, read), b.values, _seconds(a, b)) for a, b in pairs]


def _growth(before: Scrape, after: Scrape, read: Read) -> dict[Series, float]:
    grown = {}
    for series, reading in after.values.items():
        if read.kind(series[0]) == "counter":
            was = before.values.get(series)
            # a counter that is new, or lower than it was, began at zero in between
            grew = reading.value - was.value if was is not None else reading.value
            grown[series] = grew if grew >= 0 else reading.value
    return grown


def _seconds(before: Scrape, after: Scrape) -> float | None:
    if before.time is None or after.time is None or after.time <= before.time:
        return None
    return after.time - before.time


def witnesses(stretches: Sequence[Stretch]) -> list[Stretch]:
    """The same stretches, those shorter than the engines' own interval put together."""
    found: list[list[Stretch]] = []
    short: list[Stretch] = []  # not yet long enough
    seconds = 0.0
    for s in stretches:
        if s.seconds is None:
            found += [short, [s]]
            short, seconds = [], 0.0
            continue
        short.append(s)
        seconds += s.seconds
        if seconds >= WITNESS:
            found.append(short)
            short, seconds = [], 0.0
    if found and found[-1] and found[-1][-1].seconds is not None:
        found[-1].extend(short)
    else:
        found.append(short)
    return [_joined(group) for group in found if group]


def _joined(group: list[Stretch]) -> Stretch:
    if len(group) == 1:
        return group[0]
    grown: dict[Series, float] = {}
    for s in group:
        for series, grew in s.grown.items():
            grown[series] = grown.get(series, 0.0) + grew
    return Stretch(grown, group[-1].last, sum(s.seconds or 0.0 for s in group))


def counters(stretches: Sequence[Stretch], source: str) -> Iterator[Counter]:
    """Every counter and gauge of every stretch; buckets are left out, quantiles say what they say."""
    for n, s in enumerate(stretches):
        for series, reading in s.last.items():
            name, labels = series
            if name.endswith("_bucket"):
                continue
            at = (dict(labels), s.seconds, n, source)
            if series not in s.grown:
                yield Counter(name, reading.value, "gauge", *at)
            elif s.whole:
                yield Counter(name, s.grown[series], "total", *at)
            else:
                yield Counter(name, s.grown[series], "growth", *at)
