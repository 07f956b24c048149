"""Steady windows -> Samples: the numbers of served traffic, each beside the running requests it was seen at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dflash_doctor.model import Evidence, Sample
from dflash_doctor.parsers.logs.events import Event
from dflash_doctor.parsers.logs.windows import Window

FROM_LOG: dict[str, Any] = {"from": "log"}
DERIVED: dict[str, Any] = {"from": "log", "derived": True}
WARM_UP = 16  # prompt tokens; SGLang warms up and checks its health with prompts of up to eleven
V0_BLOCK = 16  # tokens; the V0 engine counts its cache in blocks and this was their size unless asked otherwise


def samples(windows: Sequence[Window], source: str, drafting: bool | None) -> tuple[Sample, ...]:
    """Samples of one boot. `drafting`: whether it drafts tokens, None when nobody says."""
    decoding = [w for w in windows if w.interval.kind != "prefill"]
    found = [s for w in _worth(decoding) for s in _speeds(w, source, drafting)]
    found += [s for w in decoding for s in _acceptance(w, source)]
    found += [s for w in windows if w.interval.kind == "prefill" for s in _prefill(w, source)]
    found += _hits(windows, source)
    return tuple(found)


def _worth(windows: Sequence[Window]) -> list[Window]:
    """Steady windows; at a load that has none, those that only share their time with prefills."""
    steady = [w for w in windows if not w.trouble]
    loads = {w.interval.running for w in steady}
    return [w for w in windows if not w.trouble or (w.trouble == {"mixed"} and w.interval.running not in loads)]


def _speeds(w: Window, source: str, drafting: bool | None) -> Iterator[Sample]:
    i = w.interval
    where = Evidence(source, i.text, i.line)
    values = {
        "output_tok_s": i.generation_tok_s,
        "running": i.running,
        "waiting": i.waiting,
        "kv_usage": i.kv_usage,
        "preemptions": w.preemptions,
    }
    for metric, value in values.items():
        if value is not None:
            yield Sample(metric, value, concurrency=i.running, conditions=FROM_LOG, evidence=where)
    tokens = i.accept_length if i.accept_length is not None else None if drafting else 1.0
    if i.running and i.generation_tok_s and tokens is not None and not w.trouble:
        # every running request takes one step at a time and gets `tokens` from it
        step = i.running * tokens / i.generation_tok_s * 1000
        yield Sample("step_time_ms", step, concurrency=i.running, conditions=DERIVED, evidence=where)


def _acceptance(w: Window, source: str) -> Iterator[Sample]:
    """Acceptance is counted per draft: a pause or a prefill in the window does not change it."""
    i = w.interval
    where = Evidence(source, i.text, i.line)
    values = {
        "accept_length": i.accept_length,
        "accept_rate": i.accept_rate,
        "accept_first": i.per_position[0] if i.per_position else None,
    }
    for metric, value in values.items():
        if value is not None:
            yield Sample(metric, value, concurrency=i.running or None, conditions=FROM_LOG, evidence=where)


def _prefill(w: Window, source: str) -> Iterator[Sample]:
    i = w.interval
    if not w.trouble and i.prompt_tok_s:
        where = Evidence(source, i.text, i.line)
        yield Sample("prefill_tok_s", i.prompt_tok_s, concurrency=None, conditions=FROM_LOG, evidence=where)


def _hits(windows: Sequence[Window], source: str) -> list[Sample]:
    """vLLM prints the rate over its last thousand requests: the last one counts.

    SGLang prints hits per prefill step: their share over the whole boot is the rate.
    """
    summed = [w for w in windows if w.interval.kind == "summary" and "idle" not in w.trouble]
    told = [w.interval for w in summed if w.interval.prefix_hit_rate is not None]
    if told:
        where = Evidence(source, told[-1].text, told[-1].line)
        rate = told[-1].prefix_hit_rate or 0.0
        return [Sample("prefix_hit_rate", rate, conditions=FROM_LOG, evidence=where, weight=len(told))]
    rows = [w for w in windows if w.interval.kind == "prefill" and w.cached + w.prefilled > WARM_UP]
    cached, total = sum(w.cached for w in rows), sum(w.cached + w.prefilled for w in rows)
    if not rows or not total:
        return []
    where = Evidence(source, rows[-1].interval.text, rows[-1].interval.line)
    return [Sample("prefix_hit_rate", cached / total, conditions=FROM_LOG, evidence=where, weight=len(rows))]


# -- per step ---------------------------------------------------------------------------------------------------------


def iterations(events: Iterable[Event], source: str) -> tuple[Sample, ...]:
    """vLLM's line per engine step (--enable-logging-iteration-details): the mean step time of each batch size."""
    groups: dict[int, list[tuple[float, Event]]] = {}
    for e in events:
        f = e.fields
        if e.id == "stats.iteration" and f.get("ctx_tok") == "0" and int(f.get("gen_reqs", "0")) > 0:
            groups.setdefault(int(f["gen_reqs"]), []).append((float(f["ms"]), e))
    return tuple(
        Sample(
            "step_time_ms",
            sorted(ms for ms, _ in rows)[len(rows) // 2],
            concurrency=float(n),
            conditions=FROM_LOG,
            evidence=Evidence(source, rows[0][1].record.text, rows[0][1].number),
            weight=len(rows),
        )
        for n, rows in sorted(groups.items())
    )


# -- capacity ---------------------------------------------------------------------------------------------------------


def capacity(events: Iterable[Event], source: str, page_size: int | None = None) -> tuple[Sample, ...]:
    """Room of the KV cache in tokens; what the scheduler says counts more than what a pool says."""
    found: list[tuple[int, float, Event]] = []
    for e in events:
        f = e.fields
        if e.id == "engine.capacity" and "max_tokens" in f:
            found.append((2, float(f["max_tokens"]), e))
        elif e.id == "kv.size" and "tokens" in f:
            found.append((1, float(f["tokens"].replace(",", "")), e))
        elif e.id == "kv.size" and "gpu" in f:
            found.append((0, float(f["gpu"]) * (page_size or V0_BLOCK), e))
    if not found:
        return ()
    best = max(weight for weight, *_ in found)
    # the first: a drafter allocates a pool of its own behind the target's; data-parallel ranks say the same
    _, value, e = next(row for row in found if row[0] == best)
    return (Sample("kv_tokens", value, evidence=Evidence(source, e.record.text, e.number)),)
