"""The KV cache has room for fewer tokens than when tuned.

## What it sees
The engine says at start how many tokens its KV cache holds; it is clearly fewer than in the baseline. Or it does not
start, because what is left does not hold one request.

## Why it costs you
Fewer requests run at once, the others wait; a full cache preempts and recomputes. At one request it costs nothing.

## How to confirm
Hold `GPU KV cache size` (vLLM) or `max_total_num_tokens` (SGLang) of the two starts against each other, and the
available memory lines above them.

## What usually did it
A lower memory fraction, CUDA-graph memory that is now counted, a drafter beside the model, a wider KV dtype, another
process on the card, more or larger graph sizes.

## When it is wrong
A few per cent are differences of profiling. A smaller cache that never fills is not why one request is slow; graphs
switched on cost some room and are worth it.
"""

from __future__ import annotations

from statistics import median

from dflash_doctor.model import Comparison, Evidence, Finding, Signal, Snapshot
from dflash_doctor.physics import PREFILL, QUEUE, STEP
from dflash_doctor.rules.seen import new, new_about, proof, proofs, put_back

SHRUNK = 0.9  # profiling differs by a few per cent between starts
FULL = 0.9  # of the cache in use: from here on the next long request waits
CAUSES = (
    "mem.*",
    "kv.dtype",
    "kv.page_size",
    "cudagraph.sizes",
    "cudagraph.max_size",
    "env.VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
)


def check(c: Comparison) -> Finding | None:
    refused = [s for s in new_about(c, "kv_cache_shrunk") if s.level == "ERROR"] + _does_not_fit(c)
    if c.now.served is False and refused:
        return _refuses(c, refused)
    now, was = room(c.now), room(c.was) if c.was else None
    if now is None or was is None or now >= SHRUNK * was:
        return None
    pressed = _pressed(c.now)
    why = [d for d in c.drift(*CAUSES) if d.key not in ("mem.max_context",)]
    return Finding(
        cause="",
        summary=f"KV cache room {now:,.0f} tokens, {was:,.0f} when tuned ({now / was:.0%})"
        + ("; it is full and requests wait" if pressed else "; it does not fill up under this load"),
        confidence=0.88 if pressed else 0.5 if c.slower and now < 0.6 * was else 0.3,
        severity="warning" if pressed or now < 0.6 * was else "info",
        evidence=(*room_lines(c.now), *(room_lines(c.was) if c.was else ()), *proof(*why[:3])),
        effects=("kv.preemption", "sched.batch_limits"),
        next_steps=(*(put_back(d) for d in why[:3]), "read the memory lines above the KV size in both logs")
        if why
        else ("hold the memory lines above the KV size in both logs against each other",),
        touches=(QUEUE, PREFILL) if pressed else (QUEUE,),
    )


def room(s: Snapshot) -> float | None:
    """KV cache room in tokens of one engine; None when nobody said."""
    values = [x.value for x in s.samples if x.metric == "kv_tokens"]
    return float(median(values)) if values else None


def room_lines(s: Snapshot) -> tuple[Evidence, ...]:
    """The lines that say how much room there is."""
    return tuple(dict.fromkeys(x.evidence for x in s.samples if x.metric == "kv_tokens" and x.evidence))[:1]


def _pressed(s: Snapshot) -> bool:
    """Whether the cache fills up and requests wait for it."""
    usage = [i.kv_usage for i in s.intervals if i.kv_usage is not None] + [
        x.value for x in s.samples if x.metric == "kv_usage"
    ]
    waits = [i.waiting for i in s.intervals if i.waiting] + [
        x.value for x in s.samples if x.metric == "waiting" and x.value
    ]
    return bool(usage) and max(usage) >= FULL and bool(waits)


def _does_not_fit(c: Comparison) -> list[Signal]:
    words = ("kv cache", "max seq len", "kv_cache", "gpu memory utilization", "mem-fraction", "max_model_len")
    return [
        s for s in new(c, "unknown", "err.*")
        if s.level in ("ERROR", "CRITICAL") and any(w in s.evidence.text.lower() for w in words)
        and any(w in s.evidence.text.lower() for w in ("memory", "larger than", "not enough", "no available"))
    ]  # fmt: skip


def _refuses(c: Comparison, refused: list[Signal]) -> Finding:
    why = list(c.drift(*CAUSES))
    return Finding(
        cause="",
        summary="the server does not start: the memory left for the KV cache does not hold what is asked for",
        confidence=0.8,
        severity="critical",
        evidence=(*proofs(refused[:2]), *proofs(new(c, "graph.memory", "mem.kv_available")[:2]), *proof(*why[:2])),
        effects=("server.failing",),
        next_steps=tuple(put_back(d) for d in why[:3])
        or ("lower --max-model-len, raise the memory fraction, or capture fewer graph sizes",),
        touches=(QUEUE, STEP),
    )
