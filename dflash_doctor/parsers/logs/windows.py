"""The engine's own periodic figures -> Intervals, and which of them show serving as it is.

    Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 50.0 tokens/s, Running: 1 reqs, …
    SpecDecoding metrics: Mean acceptance length: 2.54, Accepted throughput: 30.30 tokens/s, …   (when drafting)
    Prefill batch, #new-seq: 1, #new-token: 2048, #cached-token: 0, …
    Decode batch, #running-req: 1, #token: 10072, …, accept len: 2.73, …, gen throughput (token/s): 40.80, …

One vLLM line is a window of ten seconds (five in the V0 engine), one decode line of SGLang the time since the last one
(40 steps): either may hold a pause, a prefill, or the start or end of a request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from dflash_doctor.model import Interval
from dflash_doctor.parsers.logs.events import Event

LONGEST_TEXT = 500
NUMBER = r"(\d+(?:\.\d+)?)"


@dataclass
class Window:
    """One interval and what keeps it from being steady."""

    interval: Interval
    trouble: set[str] = field(default_factory=set)  # "idle", "drain", "edge", "mixed"
    prefilled: float = 0.0  # tokens prefilled within it
    cached: float = 0.0  # tokens of its prompts that were cached
    preemptions: float | None = None

    @property
    def believable(self) -> bool:
        """Whether its speed can be compared with a neighbour's."""
        return not self.trouble - {"edge"} and bool(self.interval.generation_tok_s) and bool(self.interval.running)


# -- vLLM -------------------------------------------------------------------------------------------------------------

ENGINE = re.compile(r"Engine (\d+)|(\d+) Engines Aggregated")
PROMPT = re.compile(rf"Avg prompt throughput: {NUMBER} tokens/s")
GENERATION = re.compile(rf"Avg generation throughput: {NUMBER} tokens/s")
RUNNING = re.compile(r"Running: (\d+) reqs")
# "Pending" in the V0 engine, where "Swapped" ones are waiting too
WAITING = re.compile(r"(?:Waiting|Pending): (\d+) reqs")
# the first one is the device's; V0 and offloading print the CPU's behind it
KV_USAGE = re.compile(rf"KV cache usage: {NUMBER}%")
HIT_RATE = re.compile(rf"Prefix cache hit rate: (?:GPU: )?{NUMBER}%")
PREEMPTIONS = re.compile(r"Preemptions: (\d+)")
# SpecDecoding metrics: Mean acceptance length: 2.86, …    (0.9 and later: the bonus token is counted)
# SpecDecoding metrics: Draft acceptance rate: 62.1%, Mean acceptance length: 1.86, …   (0.8.x: it is not)
MEAN_LENGTH = re.compile(rf"Mean acceptance length: {NUMBER}")
WITHOUT_BONUS = "SpecDecoding metrics: Draft acceptance rate"
DRAFT_RATE = re.compile(rf"Draft acceptance rate: {NUMBER}(%?)")
POSITIONS = re.compile(r"Per-position acceptance rate: ([\d., ]+)")
# Speculative metrics: … Number of speculative tokens: 3, … draft tokens: 3000, Number of emitted tokens: 2160.   (V0)
V0_SPEC = re.compile(
    r"Number of speculative tokens: (?P<k>\d+), .*Number of draft tokens: (?P<drafted>\d+), "
    r"Number of emitted tokens: (?P<emitted>\d+)"
)
APART_S = 2.0  # the two lines of one window are written together
APART_LINES = 12  # … with other engines' lines between them


def vllm(events: Iterable[Event]) -> list[Window]:
    """Windows of vLLM's periodic lines, each with the acceptance printed beside it."""
    windows: list[Window] = []
    for e in events:
        body = e.record.body
        if e.id == "stats.periodic":
            _join(windows, _summary(e), e)
        elif e.id == "spec.metrics":
            _join(windows, _acceptance(e), e)
        elif e.id == "prefix.state" and (rate := _find(HIT_RATE, body)) is not None and windows:
            windows[-1].interval = replace(windows[-1].interval, prefix_hit_rate=rate / 100)
    return windows


def _summary(e: Event) -> Window:
    body = e.record.body
    which = ENGINE.match(body)
    percent = _find(KV_USAGE, body)
    hits = _find(HIT_RATE, body)
    return Window(
        Interval(
            line=e.number,
            time=e.record.time,
            engine="0" if which is None else str(int(which[1])) if which[1] else "all",
            generation_tok_s=_find(GENERATION, body),
            prompt_tok_s=_find(PROMPT, body),
            running=_find(RUNNING, body),
            waiting=_find(WAITING, body),
            kv_usage=None if percent is None else percent / 100,
            prefix_hit_rate=None if hits is None else hits / 100,
            text=e.record.text[:LONGEST_TEXT],
        ),
        preemptions=_find(PREEMPTIONS, body),
    )


def _acceptance(e: Event) -> Window:
    body = e.record.body
    v0 = V0_SPEC.search(body)
    length = _find(MEAN_LENGTH, body)
    positions = _floats(POSITIONS, body)
    if v0 is not None:
        drafts = int(v0["drafted"]) / max(1, int(v0["k"]))
        length = int(v0["emitted"]) / drafts if drafts else None
    elif length is not None and body.startswith(WITHOUT_BONUS):
        # 0.9.0 has 0.8's wording and counts the bonus token already: the positions tell, 1 + their sum is the length
        counted = bool(positions) and abs(length - 1 - sum(positions)) < 0.5
        length += 0.0 if counted else 1.0
    elif length is None and positions:
        length = 1.0 + sum(positions)
    rate = DRAFT_RATE.search(body)
    return Window(
        Interval(
            line=e.number,
            time=e.record.time,
            accept_length=length,
            accept_rate=None if rate is None else float(rate[1]) / (100 if rate[2] else 1),
            per_position=positions,
            text=e.record.text[:LONGEST_TEXT],
        )
    )


def _join(windows: list[Window], new: Window, e: Event) -> None:
    """Puts the two lines of one window together, whichever comes first; a lone one stands for itself."""
    drafting = new.interval.generation_tok_s is None
    for old in reversed(windows[-APART_LINES:]):
        lacks = old.interval.accept_length is None if drafting else old.interval.generation_tok_s is None
        if lacks and _together(old.interval, e):
            old.interval = _both(old.interval, new.interval)
            old.preemptions = old.preemptions if drafting else new.preemptions
            return
    windows.append(new)


def _together(old: Interval, e: Event) -> bool:
    if abs(e.number - old.line) > APART_LINES:
        return False
    return old.time is None or e.record.time is None or abs(e.record.time - old.time) <= APART_S


def _both(a: Interval, b: Interval) -> Interval:
    summary, drafting = (a, b) if a.generation_tok_s is not None else (b, a)
    return replace(
        summary,
        accept_length=drafting.accept_length,
        accept_rate=drafting.accept_rate,
        per_position=drafting.per_position,
    )


# -- SGLang -----------------------------------------------------------------------------------------------------------

S_RUNNING = re.compile(r"#running-req: (\d+)")
S_QUEUE = re.compile(r"#queue-req: (\d+)")
S_TOKENS = re.compile(r"#(?:full )?token: (\d+)")
S_USAGE = re.compile(rf"token usage: {NUMBER}")
S_ACCEPT = re.compile(rf"(?<!block )accept len: {NUMBER}")
S_RATE = re.compile(rf"accept rate: {NUMBER}")
S_GRAPH = re.compile(r"\w+ graph: (True|False)")
S_DECODE = re.compile(rf"gen throughput \(token/s\): {NUMBER}")
S_PREFILL = re.compile(rf"input throughput \(token/s\): {NUMBER}")
S_NEW = re.compile(r"#new-token: (\d+)")
S_CACHED = re.compile(r"#cached-token: (\d+)")
DP_RANK = re.compile(r"\bDP(\d+)")


def sglang(events: Iterable[Event], depth: int | None) -> list[Window]:
    """Windows of SGLang's batch lines. `depth`: tokens drafted per step, where it is known and a chain."""
    windows: list[Window] = []
    pending: dict[str, Window] = {}  # engine -> what was prefilled since its last decode line
    for e in events:
        if e.id == "sched.prefill_batch":
            window = _prefill(e)
            since = pending.setdefault(window.interval.engine, Window(window.interval))
            since.prefilled += window.prefilled
            if not window.interval.running:
                since.trouble.add("edge")  # nothing ran before it: the window holds a pause
            windows.append(window)
        elif e.id == "sched.decode_batch":
            window = _decode(e, depth)
            before = pending.pop(window.interval.engine, None)
            if before is not None:
                window.prefilled = before.prefilled
                window.trouble |= before.trouble
            windows.append(window)
    return windows


def _decode(e: Event, depth: int | None) -> Window:
    body = e.record.body
    length, rate = _find(S_ACCEPT, body), _find(S_RATE, body)
    if length is not None and depth:
        # the printed rate counts the bonus token until 0.5.10 and not in 0.5.23; the length is the same in all
        rate = max(0.0, (length - 1) / depth)
    graph = S_GRAPH.search(body)
    return Window(
        Interval(
            line=e.number,
            time=e.record.time,
            engine=_dp(e),
            kind="decode",
            generation_tok_s=_find(S_DECODE, body),
            running=_find(S_RUNNING, body),
            waiting=_find(S_QUEUE, body),
            kv_usage=_find(S_USAGE, body),
            accept_length=length,
            accept_rate=rate,
            graph=None if graph is None else graph[1] == "True",
            context_tokens=_find(S_TOKENS, body),
            text=e.record.text[:LONGEST_TEXT],
        )
    )


def _prefill(e: Event) -> Window:
    body = e.record.body
    new, cached = _find(S_NEW, body) or 0.0, _find(S_CACHED, body) or 0.0
    graph = S_GRAPH.search(body)
    return Window(
        Interval(
            line=e.number,
            time=e.record.time,
            engine=_dp(e),
            kind="prefill",
            prompt_tok_s=_find(S_PREFILL, body),
            running=_find(S_RUNNING, body),
            waiting=_find(S_QUEUE, body),
            kv_usage=_find(S_USAGE, body),
            prefix_hit_rate=cached / (cached + new) if cached + new else None,
            graph=None if graph is None else graph[1] == "True",
            text=e.record.text[:LONGEST_TEXT],
        ),
        prefilled=new,
        cached=cached,
    )


def _dp(e: Event) -> str:
    m = DP_RANK.search(e.record.rank)
    return m[1] if m else "0"


# -- reading numbers --------------------------------------------------------------------------------------------------


def _find(pattern: re.Pattern[str], body: str) -> float | None:
    m = pattern.search(body)
    return float(m[1]) if m else None


def _floats(pattern: re.Pattern[str], body: str) -> tuple[float, ...]:
    m = pattern.search(body)
    found = [] if m is None else [p.strip() for p in m[1].split(",")]
    return tuple(float(p) for p in found if re.fullmatch(r"\d+(?:\.\d+)?", p))


def by_engine(windows: Sequence[Window]) -> list[list[Window]]:
    """The windows of each data-parallel engine, in order."""
    groups: dict[str, list[Window]] = {}
    for w in windows:
        groups.setdefault(w.interval.engine, []).append(w)
    return list(groups.values())
