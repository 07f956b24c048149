"""A limit on running requests or on tokens per step caps the batch below the load.

## What it sees
Requests wait although the KV cache has room, and the running ones stand at the limit; the limit is lower than in the
baseline, by flag or because another option lowered it.

## Why it costs you
Requests queue: first tokens come late and the whole engine's throughput is cut, while each running request is as fast
as ever, or faster.

## How to confirm
`vllm:num_requests_waiting` above zero with `kv_cache_usage_perc` low, or `#queue-req` with a low token usage in SGLang.

## What usually did it
`--max-num-seqs` / `--max-running-requests` lowered; SGLang's own limit of 48 when a speculative algorithm is set; a
token budget cut by draft slots; a limit that is divided by data-parallel ranks.

## When it is wrong
When the cache is full the queue is its consequence. A higher limit makes each request slower and the whole faster: that
is a trade, not a regression.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from dflash_doctor.model import SPEED, Comparison, Drift, Evidence, Finding, Interval, Signal
from dflash_doctor.physics import PREFILL, QUEUE
from dflash_doctor.rules.drafting import fell
from dflash_doctor.rules.seen import new, proof, proofs, put_back

MANY_TIMES = 4  # as many in the queue as before: more than a busy minute
PACE = ("tpot_ms", "itl_ms", "step_time_ms", "decode_tok_s")  # of one request
STANDS = 3  # intervals with one number of running requests
ROOM = 0.7  # KV use below which waiting requests do not wait for memory
KEYS = (
    "sched.max_seqs", "sched.max_tokens", "sched.max_num_active_seqs", "sched.max_num_scheduled_tokens",
    "sched.prefill_max_requests", "sched.queue_limit", "sched.max_num_queued_tokens",
)  # fmt: skip


def check(c: Comparison) -> Finding | None:
    lowered = [d for d in c.drift(*KEYS) if _lower(d)]
    queued = [i for i in c.now.intervals if (i.waiting or 0) >= 1 and i.kv_usage is not None and i.kv_usage < ROOM]
    before = _waiting(c.was.intervals) if c.was else 0.0
    queued_before = before > 0 and _waiting(queued) < MANY_TIMES * before
    said = new(c, "engine.max_running_reduced", "spec.scheduled_tokens_cap")
    seqs = [d for d in lowered if d.key in ("sched.max_seqs", "sched.max_num_active_seqs")]
    if c.was is None:
        return _finding(c, [], queued, said, 0.55) if _at_limit(c, queued) else None
    if not lowered and not (queued and not queued_before and _at_limit(c, queued)):
        return None
    if queued and not queued_before:
        confidence = 0.9 if seqs else 0.85 if said else 0.75
        if not lowered and not said and ((c.delta(*PACE) and c.delta(*PACE)[0].verdict == "worse") or fell(c)):
            confidence = 0.4  # each request got slower, so a queue would grow by itself
    else:
        confidence = 0.85 if seqs and _below_the_load(c) else 0.35
    return _finding(c, lowered, queued, said, confidence)


def _waiting(rows: Iterable[Interval]) -> float:
    """Requests that wait, in the middle of the intervals where any does."""
    found = [i.waiting for i in rows if (i.waiting or 0) >= 1]
    return float(median(x for x in found if x)) if found else 0.0


def _finding(
    c: Comparison, lowered: list[Drift], queued: list[Interval], said: tuple[Signal, ...], confidence: float
) -> Finding:
    first = lowered[0].words() if lowered else "the limit on running requests"
    worst = max(queued, key=lambda i: i.waiting or 0, default=None)
    waits = (
        f"; {worst.waiting:.0f} wait, {worst.running or 0:.0f} run, and the KV cache is {worst.kv_usage or 0:.0%} full"
        if worst
        else ""
    )
    lines = (Evidence("server.log", worst.text, worst.line),) if worst is not None and worst.text else ()
    return Finding(
        cause="",
        summary=f"{first}{waits}",
        confidence=confidence,
        severity="warning",
        evidence=(*lines, *proofs(said[:2]), *proof(*lowered, c.now.settings.get("sched.max_seqs"))),
        next_steps=tuple(put_back(d) for d in lowered)
        or ("set --max-num-seqs / --max-running-requests explicitly to the load you have",),
        touches=(QUEUE, PREFILL),
    )


def _below_the_load(c: Comparison) -> bool:
    """Whether a measured point that got worse asked for more requests at once than the limit lets run."""
    limit = c.now.value("sched.max_seqs")
    worse = [d.concurrency or 0 for d in c.deltas if d.verdict == "worse" and d.metric in SPEED]
    return isinstance(limit, (int, float)) and any(n > limit for n in worse)


def _at_limit(c: Comparison, queued: list[Interval]) -> bool:
    """Whether the running requests of the queued lines stand at the limit."""
    limit = c.now.value("sched.max_seqs")
    if not queued:
        return False
    if len(queued) >= STANDS and len({round(i.running or 0) for i in queued}) == 1:
        return True  # requests wait, there is memory, and never one more runs: some limit binds
    most = max(i.running or 0 for i in queued)
    if not isinstance(limit, (int, float)):
        return False
    ranks = c.now.value("parallel.dp", 1) or 1
    return most >= 0.95 * limit / ranks


def _lower(d: Drift) -> bool:
    was, now = (d.was.value if d.was else None), (d.now.value if d.now else None)
    return isinstance(was, (int, float)) and isinstance(now, (int, float)) and 0 < now < was
