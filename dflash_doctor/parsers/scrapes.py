"""The text of /metrics -> scrapes: what each series said, at which moment, in which line.

    # scrape 2026-12-01T04:38:10Z
    # TYPE vllm:num_preemptions_total counter
    vllm:num_preemptions_total{engine="0",model_name="small"} 0.0

Each line is handed to prometheus_client's parser alone (18 µs), so that a bad line costs itself and nothing else.
Without `# scrape` lines a series that comes again begins the next scrape: people append files to each other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Literal

import yaml
from prometheus_client.parser import text_string_to_metric_families

from dflash_doctor import paths

Labels = tuple[tuple[str, str], ...]
Series = tuple[str, Labels]
Kind = Literal["counter", "gauge"]

LONGEST = 20_000  # characters of a line; the longest real one, cache_config_info, has two thousand
OURS = ("vllm:", "sglang:", "process_start_time_seconds", "process_cpu_seconds_total")
MARK = re.compile(r"#\s*scrape\b\s*(?P<when>\S*)")
TYPE = re.compile(r"# TYPE (?P<name>[a-zA-Z_:][\w:]{0,200}) (?P<kind>\w{1,20})")
NAME = re.compile(r"[a-zA-Z_:][\w:]{0,200}(?=[\s{])")
# names of one scheduler of a group that works on the same batch: their numbers are the same number
RANKS = ("tp_rank", "pp_rank", "moe_ep_rank", "pid")


@dataclass(frozen=True, slots=True)
class Reading:
    """What one series said, and where."""

    value: float
    line: int
    text: str


@dataclass
class Scrape:
    """One look at /metrics."""

    time: float | None = None
    values: dict[Series, Reading] = field(default_factory=dict)


@dataclass
class Read:
    """A whole text."""

    scrapes: list[Scrape]
    kinds: dict[str, str]  # what `# TYPE` says
    bad: list[tuple[int, str]]  # lines that cannot be read
    others: set[str]  # beginnings of names that are no engine's

    def kind(self, name: str) -> Kind:
        """Whether a name only ever grows. Parts of histograms and summaries do."""
        told = table()["kinds"]
        if name in told["counter"]:
            return "counter"
        said = self.kinds.get(name) or self.kinds.get(name.removesuffix("_total"))
        if said is None:
            base = re.sub(r"_(?:sum|count|bucket)$", "", name)
            part = self.kinds.get(base) in ("histogram", "summary") or (base != name and base not in self.kinds)
            grows = (name.endswith("_total") and name not in told["gauge"]) or part
            return "counter" if grows else "gauge"
        return "counter" if said == "counter" else "gauge"


@cache
def table() -> Mapping[str, Any]:
    """data/metrics.yaml."""
    found: Mapping[str, Any] = yaml.safe_load(paths.data("metrics.yaml").read_text(encoding="utf-8"))
    return found


@cache
def _histograms() -> frozenset[str]:
    """Names whose buckets are read; the others' are only bulk."""
    rows = (table()[engine][q] for engine in ("vllm", "sglang") for q in ("ttft", "itl", "tpot", "e2e"))
    return frozenset(f"{n}_bucket" for row in rows for n in row["names"])


def read(text: str) -> Read:
    """Every scrape of the text, each scheduler group once."""
    found = Read([Scrape()], {}, [], set())
    marked = False
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw[:LONGEST].strip()
        if line.startswith("#"):
            mark = MARK.match(line)
            if mark:
                marked = True
                found.scrapes.append(Scrape(_time(mark["when"])))
            elif (told := TYPE.match(line)) is not None:
                found.kinds[told["name"]] = told["kind"]
        elif line:
            _sample(found, line, number, marked)
    found.scrapes = [s for s in found.scrapes if s.values]
    for scrape in found.scrapes:
        scrape.values = dict(_once_a_group(scrape.values))
    return found


def _sample(found: Read, line: str, number: int, marked: bool) -> None:
    named = NAME.match(line)
    if named is None:
        found.bad.append((number, line))
        return
    name = named[0]
    if not name.startswith(OURS):
        if _is_number(line.rpartition(" ")[2]):
            found.others.add(re.split(r"[:_]", name, maxsplit=1)[0])
        else:
            found.bad.append((number, line))
        return
    if name.endswith("_created") or (name.endswith("_bucket") and name not in _histograms()):
        return
    try:
        (family,) = text_string_to_metric_families(line + "\n")
        (sample,) = family.samples
        value = float(sample.value)
    except (ValueError, OverflowError, IndexError, KeyError, TypeError, AttributeError):
        found.bad.append((number, line))
        return
    if not math.isfinite(value):  # NaN: nothing was observed yet
        return
    series = (name, tuple(sorted(sample.labels.items())))
    if not marked and series in found.scrapes[-1].values:
        found.scrapes.append(Scrape())
    found.scrapes[-1].values[series] = Reading(value, number, line)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _time(text: str) -> float | None:
    """Seconds since the epoch of an ISO time, or of a number of seconds."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None


def _once_a_group(values: Mapping[Series, Reading]) -> Iterator[tuple[Series, Reading]]:
    """Of the ranks of one group the first: adding them up would multiply the figure. Data-parallel ranks stay."""
    best: dict[Series, tuple[tuple[int, ...], Series]] = {}
    for series in values:
        name, labels = series
        rest = (name, tuple(pair for pair in labels if pair[0] not in RANKS))
        place = tuple(int(v) if v.isdigit() and len(v) < 12 else 0 for k, v in labels if k in RANKS[:3])
        if rest not in best or place < best[rest][0]:
            best[rest] = (place, series)
    return ((series, values[series]) for _, series in best.values())
