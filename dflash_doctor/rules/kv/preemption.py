"""The KV cache is full: running requests are preempted and computed again.

## What it sees
The engine's preemption (vLLM) or retraction (SGLang) counter grows, or its log says that requests are retracted, while
the cache is full; the baseline had none.

## Why it costs you
A preempted request loses its KV and pays its whole prefill again. Prompt throughput rises, generation falls.

## How to confirm
`vllm:num_preemptions_total` or `sglang:num_retracted_requests_total` grow while the KV usage stands near 100 %. vLLM V1
prints no line for it.

## What usually did it
Fewer KV tokens than before; longer or more requests; prompts admitted by their first chunk only; output lengths that
were guessed too low (`--schedule-conservativeness`).

## When it is wrong
A high KV usage alone is good use of memory. One or two preemptions over hours are normal. A counter since the start of
the server says nothing about now.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Evidence, Finding, Snapshot
from dflash_doctor.physics import PREFILL, QUEUE, STEP
from dflash_doctor.rules.seen import proofs, put_back

COUNTERS = (
    "vllm:num_preemptions_total",
    "vllm:num_preemptions",
    "sglang:num_retracted_requests_total",
    "sglang:num_retracted_reqs",
    "sglang:total_retracted_reqs",
)
FULL = 0.9


def check(c: Comparison) -> Finding | None:
    grown = c.now.counter(*COUNTERS)
    lines = c.now.find("sched.retract", "sched.preempt_v0")
    many = sum(s.count for s in lines)
    full = _fullest(c.now)
    if not (grown or 0) > 0 and not many:
        return None
    if c.was is not None and (c.was.counter(*COUNTERS) or 0) >= (grown or 0) > 0 and c.was.find("sched.retract"):
        return None
    happened = max(grown or 0, many)
    sure = full is not None and full >= FULL
    drifts = c.drift("sched.max_seqs", "mem.fraction", "sched.max_tokens", "kv.dtype", "mem.max_context")
    usage = f" with the KV cache {full:.0%} full" if full is not None else ""
    return Finding(
        cause="",
        summary=f"{happened:.0f} preemptions{usage}: requests are thrown out and computed again",
        confidence=0.9 if sure and happened >= 3 else 0.6 if happened >= 3 else 0.35,
        severity="critical" if sure and happened >= 3 else "warning",
        evidence=(*proofs(lines[:2]), *_usage_lines(c.now)),
        effects=(),
        next_steps=(
            *(put_back(d) for d in drifts[:2]),
            "give the KV cache more memory, or admit fewer requests (--max-num-seqs / --max-running-requests)",
        ),
        touches=(STEP, QUEUE, PREFILL),
        proven=sure and happened >= 3,
    )


def _fullest(s: Snapshot) -> float | None:
    found = [i.kv_usage for i in s.intervals if i.kv_usage is not None] + [
        x.value for x in s.samples if x.metric == "kv_usage"
    ]
    return max(found) if found else None


def _usage_lines(s: Snapshot) -> tuple[Evidence, ...]:
    rows = sorted((i for i in s.intervals if i.kv_usage is not None and i.text), key=lambda i: -(i.kv_usage or 0))
    return tuple(Evidence("server.log", i.text, i.line) for i in rows[:1])
