"""Chunked prefill or its chunk size changed for the worse.

## What it sees
Chunked prefill was switched off or on, or the token budget of a step differs much from the baseline's, and first tokens
or the gaps between tokens got worse.

## Why it costs you
Without chunks a long prompt stalls every running answer; with small chunks a long prompt takes many steps and first
tokens come late.

## How to confirm
Set `--max-num-batched-tokens` / `--chunked-prefill-size` back and send one long prompt while answers run.

## What usually did it
A new default, a memory-saving recipe, draft slots that share the budget, a model that does not support it.

## When it is wrong
With short prompts the chunk size is never reached. Decode at one request does not depend on it.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Drift, Finding
from dflash_doctor.physics import PREFILL, QUEUE
from dflash_doctor.rules.seen import new_about, others, proof, proofs, put_back, same_engine

ALSO = (
    "sched.long_prefill_token_threshold", "sched.max_num_partial_prefills", "sched.max_long_partial_prefills",
    "sched.enable_mixed_chunk", "sched.enable_dynamic_chunking", "sched.prefill_schedule_interval",
    "sched.prefill_decode_interval", "sched.max_prefill_tokens",
)  # fmt: skip


def check(c: Comparison) -> Finding | None:
    if not same_engine(c):
        return None
    switched = [d for d in c.drift("sched.chunked_prefill") if d.was and d.now]
    resized = [d for d in c.drift("sched.max_tokens") if _much(d)]
    tuned = others(c, *ALSO) if not switched and not resized else []
    if not switched and not resized and not tuned:
        return None
    said = new_about(c, "chunked_prefill_interference")
    first = (switched or resized or tuned)[0]
    return Finding(
        cause="",
        summary=f"{first.words()}: prompts are prefilled in other pieces",
        confidence=0.65 if switched else 0.55,
        severity="warning",
        evidence=(*proof(*switched, *resized, *tuned), *proofs([s for s in said if s.level == "WARNING"][:1])),
        next_steps=tuple(put_back(d) for d in (*switched, *resized, *tuned)),
        touches=(PREFILL, QUEUE),
    )


def _much(d: Drift) -> bool:
    was, now = (d.was.value if d.was else None), (d.now.value if d.now else None)
    if not isinstance(was, (int, float)) or not isinstance(now, (int, float)) or was <= 0 or now <= 0:
        return False
    return max(was, now) >= 2 * min(was, now)
