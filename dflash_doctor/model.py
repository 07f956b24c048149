"""The nouns. Everything a stage takes or gives is one of these; they are frozen and know nobody.

host ▶ capture ▶ facts ▶ snapshot ▶ comparison ▶ diagnosis
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal

# -- trouble ----------------------------------------------------------------------------------------------------------


class Unreadable(Exception):
    """A text that cannot be understood; the message is for the person who will fix it. Becomes a Gap."""


class Refused(Exception):
    """Something the user asked for that cannot be done; printed as one sentence, exit status 2."""


@dataclass(frozen=True)
class Gap:
    """Something we could not see, and why. Never means healthy."""

    what: str
    why: str


# -- what a host says -------------------------------------------------------------------------------------------------

HostKind = Literal["ssh", "local", "url", "capture"]


@dataclass(frozen=True)
class Host:
    """Somewhere to look: an SSH host, this machine, a serving endpoint, or a capture on disk."""

    target: str  # as the user wrote it
    kind: HostKind
    address: str = ""  # host name, URL, or path
    port: int | None = None
    user: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # what ~/.ssh/config said


@dataclass(frozen=True)
class Capture:
    """Everything a host said, as named text. File names are those of the capture folder."""

    name: str
    files: Mapping[str, bytes]
    gaps: tuple[Gap, ...] = ()
    large: Mapping[str, Path] = field(default_factory=dict)  # logs too long to hold: name -> where they lie on disk


# -- what a parser reads ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evidence:
    """One line of one source, as the host wrote it (untrusted text)."""

    source: str
    text: str
    line: int | None = None  # 1-based


Said = Literal["effective", "asked", "default"]


@dataclass(frozen=True)
class Setting:
    """One tuning concept and its value on this host, in the neutral vocabulary of settings.py.

    `effective`: the engine said that it runs so. `asked`: a flag, a config or the environment asked for it.
    `default`: nobody said anything and this version's default is known.
    """

    key: str
    value: Any
    said: Said = "asked"
    spelled: str = ""  # how this engine spells it: "--enforce-eager", "VLLM_ATTENTION_BACKEND"
    evidence: Evidence | None = None


@dataclass(frozen=True)
class Signal:
    """A log line that was understood, or a warning that was not (id "unknown"). Equal lines of ranks are one."""

    id: str  # "graph.mode_downgraded", as in data/*_log_signals.yaml
    evidence: Evidence  # the first such line
    level: str = "INFO"
    fields: Mapping[str, str] = field(default_factory=dict)  # the named groups of its pattern
    topics: tuple[str, ...] = ()
    count: int = 1
    last_line: int | None = None
    ranks: tuple[str, ...] = ()
    template: str = ""  # the text with numbers, paths and ids masked
    time: float | None = None  # seconds since the epoch, or since the start of the log when it has no date


@dataclass(frozen=True)
class Sample:
    """One measured number under its conditions. Samples with equal conditions form one group."""

    metric: str  # a row of metrics.py; the name says the unit
    value: float
    workload: str | None = None  # None: whatever traffic the server had
    concurrency: float | None = None
    prompt: str | None = None  # id of the battery prompt: the pairing key
    boot: str | None = None
    round: int | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)  # input_tokens, output_tokens, request_rate, dataset …
    evidence: Evidence | None = None
    weight: float = 1.0


@dataclass(frozen=True)
class Interval:
    """What the engine said about itself over one logging interval (a ten-second line, or one decode-batch line)."""

    line: int
    time: float | None
    engine: str = "0"  # data-parallel rank or engine index
    kind: Literal["summary", "decode", "prefill"] = "summary"
    generation_tok_s: float | None = None
    prompt_tok_s: float | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None  # 0..1
    prefix_hit_rate: float | None = None  # 0..1
    accept_length: float | None = None  # bonus token counted
    accept_rate: float | None = None  # 0..1, accepted/drafted
    per_position: tuple[float, ...] = ()  # marginal probability that positions 0..i are all accepted
    graph: bool | None = None  # SGLang's "cuda graph:" field
    context_tokens: float | None = None  # KV tokens in use, where the line says so
    steady: bool = True  # False: idle, warm-up, drain, mixed with prefill …
    text: str = ""


@dataclass(frozen=True)
class Counter:
    """Growth of one Prometheus counter, or the last value of a gauge, over one stretch between two scrapes."""

    name: str  # without engine prefix change: as exposed, e.g. "vllm:num_preemptions_total"
    value: float
    kind: Literal["growth", "gauge", "total"]  # total: only one scrape, the value since server start
    labels: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None  # length of the stretch, for growth
    stretch: int = 0  # 0 = first pair of scrapes
    source: str = "metrics.prom"


@dataclass(frozen=True)
class GpuReading:
    """One GPU at one moment. Keys are those of nvidia-smi --help-query-gpu, values in its units (CONTRACTS.md §2)."""

    index: int
    t: float
    load: bool | None  # None: the source does not say whether there was load
    values: Mapping[str, Any]  # number, text; None = not supported; Gap = the read failed
    source: str = "gpu.json"
    line: int | None = None


@dataclass(frozen=True)
class Facts:
    """What one parser understood of one file."""

    engine: str | None = None  # "vllm" | "sglang" | other name
    version: str | None = None
    settings: tuple[Setting, ...] = ()
    signals: tuple[Signal, ...] = ()
    samples: tuple[Sample, ...] = ()
    intervals: tuple[Interval, ...] = ()
    counters: tuple[Counter, ...] = ()
    readings: tuple[GpuReading, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)  # host.json, capture.yaml, driver version …
    links: Mapping[tuple[int, int], str] = field(default_factory=dict)  # GPU pair -> NV4, PIX, PHB, SYS …
    gaps: tuple[Gap, ...] = ()
    served: bool | None = None  # whether the server came up and answered, when the text shows it
    earlier: tuple[Facts, ...] = ()  # previous server starts in the same log, oldest first


# -- a host at a moment -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Snapshot:
    """A host at a moment: all facts of one capture put together. Blessed and named, it is a baseline."""

    name: str
    engine: str | None = None
    version: str | None = None
    taken_at: str | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)  # the strongest saying of each key
    asked: Mapping[str, Setting] = field(default_factory=dict)  # what flags and environment asked for
    signals: tuple[Signal, ...] = ()
    samples: tuple[Sample, ...] = ()
    intervals: tuple[Interval, ...] = ()
    counters: tuple[Counter, ...] = ()
    readings: tuple[GpuReading, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    links: Mapping[tuple[int, int], str] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    served: bool | None = None
    sources: tuple[str, ...] = ()  # names of the files that were read
    earlier: tuple[Snapshot, ...] = ()  # previous boots
    published: bool = False  # a baseline of published single values, not measured by us

    def value(self, key: str, default: Any = None) -> Any:
        """The value of a setting, or `default` when nothing is known."""
        setting = self.settings.get(key)
        return default if setting is None else setting.value

    def find(self, *ids: str) -> tuple[Signal, ...]:
        """Signals of these ids, or families ("graph.*"), in log order."""
        exact = {i for i in ids if not i.endswith("*")}
        heads = tuple(i[:-1] for i in ids if i.endswith("*"))
        return tuple(s for s in self.signals if s.id in exact or (heads and s.id.startswith(heads)))

    def about(self, *topics: str) -> tuple[Signal, ...]:
        """Signals that speak of any of these topics."""
        wanted = set(topics)
        return tuple(s for s in self.signals if wanted.intersection(s.topics))

    def gpu(self, key: str, load: bool | None = True) -> dict[int, list[Any]]:
        """Values of one GPU key by GPU index; under load by default, None takes every reading."""
        found: dict[int, list[Any]] = {}
        for r in self.readings:
            if key in r.values and (load is None or r.load is load):
                found.setdefault(r.index, []).append(r.values[key])
        return found

    def gpu_numbers(self, key: str, load: bool | None = True) -> dict[int, float]:
        """Median per GPU of one numeric key; GPUs that do not support it or failed are left out."""
        numbers = {i: [v for v in vs if isinstance(v, (int, float))] for i, vs in self.gpu(key, load).items()}
        return {i: median(vs) for i, vs in numbers.items() if vs}

    def gpu_names(self) -> tuple[str, ...]:
        """Product names by GPU index, each once per GPU."""
        # a card that is lost may not even tell its name
        names = {r.index: r.values["name"] for r in self.readings if isinstance(r.values.get("name"), str)}
        return tuple(names[i] for i in sorted(names))

    def counter(self, *names: str) -> float | None:
        """Sum of a counter over labels and stretches: growth where there were two scrapes, else None."""
        grown = [c.value for c in self.counters if c.name in names and c.kind == "growth"]
        return sum(grown) if grown else None

    def total(self, *names: str) -> float | None:
        """Growth of a counter, or its value since server start when there was one scrape only."""
        grown = self.counter(*names)
        if grown is not None:
            return grown
        totals = [c.value for c in self.counters if c.name in names and c.kind == "total"]
        return sum(totals) if totals else None

    def gauge(self, *names: str) -> float | None:
        """Last value of a gauge, summed over its label sets."""
        last = [c for c in self.counters if c.name in names and c.kind == "gauge"]
        if not last:
            return None
        end = max(c.stretch for c in last)
        return sum(c.value for c in last if c.stretch == end)


# -- snapshot against baseline ----------------------------------------------------------------------------------------

Verdict = Literal["worse", "minor", "same", "unsure", "better"]


@dataclass(frozen=True)
class Delta:
    """One metric under one set of conditions, then and now."""

    metric: str
    was: float
    now: float
    verdict: Verdict
    workload: str | None = None
    concurrency: float | None = None
    factor: float = 1.0  # speed factor: now/was for a rate, was/now for a time; below 1 is slower
    low: float | None = None  # interval of the factor
    high: float | None = None
    n_was: int = 1
    n_now: int = 1
    p: float | None = None
    paired: bool = False
    note: str = ""
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class Drift:
    """One setting that differs. Either side may be unknown (None)."""

    key: str
    was: Setting | None
    now: Setting | None

    def words(self) -> str:
        """`attention.backend: flash_attn -> triton_attn`."""
        return f"{self.key}: {_shown(self.was)} -> {_shown(self.now)}"


def _shown(setting: Setting | None) -> str:
    if setting is None:
        return "not set"
    if isinstance(setting.value, bool):
        return "on" if setting.value else "off"
    return f"{setting.value:g}" if isinstance(setting.value, float) else str(setting.value)


Basis = Literal["baseline", "previous boot", "none"]


@dataclass(frozen=True)
class Comparison:
    """A snapshot held against a baseline. Without one (`basis` "none") it still carries the snapshot."""

    now: Snapshot
    was: Snapshot | None = None
    basis: Basis = "none"
    deltas: tuple[Delta, ...] = ()
    drifts: tuple[Drift, ...] = ()
    unlike: tuple[str, ...] = ()  # conditions that differ, in words: then numbers are not held against each other
    fresh: tuple[Signal, ...] = ()  # warnings that the baseline did not have
    gaps: tuple[Gap, ...] = ()

    def drift(self, *keys: str) -> tuple[Drift, ...]:
        """Drifts of these keys, or families ("spec.*")."""
        exact = {k for k in keys if not k.endswith("*")}
        heads = tuple(k[:-1] for k in keys if k.endswith("*"))
        return tuple(d for d in self.drifts if d.key in exact or (heads and d.key.startswith(heads)))

    def delta(self, *metrics: str) -> tuple[Delta, ...]:
        """Deltas of these metrics, the worst first."""
        return tuple(sorted((d for d in self.deltas if d.metric in metrics), key=lambda d: d.factor))

    @property
    def slower(self) -> bool | None:
        """Whether any speed a user feels got worse; None when none was compared or the numbers cannot tell."""
        speeds = [d.verdict for d in self.deltas if d.metric in SPEED]
        if "worse" in speeds:
            return True
        return None if not speeds or "unsure" in speeds else False


# what a user feels; the rest are counters that explain
SPEED = ("output_tok_s", "total_tok_s", "prefill_tok_s", "req_s", "ttft_ms", "tpot_ms", "itl_ms", "e2e_ms", "rtf")


# -- what we say ------------------------------------------------------------------------------------------------------

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True)
class Impact:
    """How much of the speed one cause accounts for, as a factor below 1; `bound` says it is a limit, not a measure."""

    factor: float
    low: float | None = None
    high: float | None = None
    bound: bool = False


@dataclass(frozen=True)
class KnownIssue:
    """Something known upstream that this host shows and the baseline does not: it speaks for a finding's cause."""

    id: str  # of a row of data/known_issues.yaml
    title: str
    size: str  # what it costs, as reported
    link: str
    way_out: str


@dataclass(frozen=True)
class Finding:
    """One named cause, with what speaks for it and what to type next."""

    cause: str  # a name of causes.yaml; rules leave it empty, diagnose fills it from the rule's path
    summary: str
    confidence: float  # our own probability that this cause is real and matters
    severity: Severity = "warning"
    impact: Impact | None = None
    evidence: tuple[Evidence, ...] = ()
    against: tuple[str, ...] = ()  # what speaks against it
    effects: tuple[str, ...] = ()  # effect causes that it explains
    next_steps: tuple[str, ...] = ()
    touches: tuple[str, ...] = ()  # which factor it acts on: "tokens per step", "step time", "prefill", "queue"
    proven: bool = False  # this host's own numbers show the loss, whatever was compared: a cliff, counted preemptions
    known: tuple[KnownIssue, ...] = ()


@dataclass(frozen=True)
class Part:
    """One factor of the slow-down."""

    name: str
    factor: float
    cause: str | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Slowdown:
    """The headline: how much slower, and the factors whose product it is."""

    metric: str
    was: float
    now: float
    factor: float
    workload: str | None = None
    concurrency: float | None = None
    low: float | None = None
    high: float | None = None
    parts: tuple[Part, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Suspect:
    """A root that could be behind a loss nothing explains: True speaks for it, False against it, None is open."""

    cause: str
    speaks: bool | None
    words: str


@dataclass(frozen=True)
class Lead:
    """A difference that no finding speaks of."""

    what: str
    weight: float  # 0..1: how likely such a change moves the speed
    evidence: Evidence | None = None


@dataclass(frozen=True)
class Bisection:
    """The fewest restarts that find which difference is guilty."""

    first: tuple[Lead, ...]  # put these back together, then look on which side the speed is
    restarts: float  # to expect, all in all


@dataclass(frozen=True)
class Unexplained:
    """A loss that no cause was named for, and what is left to look at."""

    part: str  # the factor of the speed
    factor: float
    suspects: tuple[Suspect, ...] = ()


@dataclass(frozen=True)
class Carry:
    """A setting of the tuned side that another engine or release has to be told to run as it did."""

    key: str
    title: str
    was: Any
    now: Any
    write: str  # in the spelling of this engine; empty where it cannot be said there
    why: str = ""
    weight: float = 0.0  # 0..1: how likely it moves the speed


@dataclass(frozen=True)
class BreakEven:
    """Whether speculation pays: it does where `kept` is above `cost`."""

    kept: float  # tokens per step, bonus counted
    cost: float  # time of a drafted step over a plain one; a lower bound unless measured
    measured: bool = False
    depth: int | None = None  # tokens drafted per step
    best_depth: int | None = None  # a length that would be faster, by the measured acceptance by position
    best_gain: float | None = None  # by about this factor


ReportVerdict = Literal["healthy", "minor", "regressed", "unconfirmed", "suspect", "inconclusive", "not_comparable"]


@dataclass(frozen=True)
class Diagnosis:
    """Everything a report says about one host."""

    target: str
    verdict: ReportVerdict
    comparison: Comparison
    findings: tuple[Finding, ...] = ()
    slowdown: Slowdown | None = None
    gaps: tuple[Gap, ...] = ()
    baseline: str | None = None
    baseline_why: str = ""
    taken_at: str | None = None
    notes: tuple[str, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()
    leads: tuple[Lead, ...] = ()  # only where something is not explained
    bisection: Bisection | None = None
    break_even: BreakEven | None = None
    carry: tuple[Carry, ...] = ()  # only where the tuned side is another engine or release; the heaviest first

    @property
    def now(self) -> Snapshot:
        return self.comparison.now

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)


def lines(evidence: Sequence[Evidence | None]) -> tuple[Evidence, ...]:
    """The evidence that is there, each line once, in order."""
    return tuple(dict.fromkeys(e for e in evidence if e is not None))
