"""What speed is made of: tokens per step over step time, and how a slow-down factors into the two.

    tok/s of one request = tokens per step / step time                                  (MEASURING.md 5.2, 5.5)
    speed now / speed then = (A_now / A_then) x (t_then / t_now) x residual

A is the acceptance length with the bonus token counted, 1 without speculation. When step time is itself computed as
A / tok/s the product is exact by construction and proves nothing; then the part says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from dflash_doctor.model import Comparison, Delta, Interval, Part, Slowdown, Snapshot

TOKENS, STEP, PREFILL, QUEUE, RESIDUAL = "tokens per step", "step time", "prefill", "queue", "not explained"

# the headline, best first: what a user feels while reading an answer, then throughput, then waiting
DECODE = ("output_tok_s", "decode_tok_s", "tpot_ms", "itl_ms")
HEADLINES = (*DECODE, "total_tok_s", "req_s", "e2e_ms", "prefill_tok_s", "ttft_ms", "rtf")
DRAFTS = ("vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_drafts")
WRITTEN = ("vllm:generation_tokens_total", "vllm:generation_tokens")
ENOUGH = 1000  # tokens written without a draft that are no accident
LENGTHS = ("accept_length", "tokens_per_chunk")
ASSUMED = "the baseline's tokens per step are assumed, so how the loss splits rests on them"
HIDDEN = "tokens per step are unknown on one side, so their change may hide in it"
VERDICT_ORDER = ("worse", "minor", "unsure", "same", "better")


def slowdown(c: Comparison) -> Slowdown | None:
    """The headline of a comparison and its factors; None when no speed was compared."""
    delta = headline(c.deltas)
    if delta is None:
        return None
    return Slowdown(
        metric=delta.metric, was=delta.was, now=delta.now, factor=delta.factor, workload=delta.workload,
        concurrency=delta.concurrency, low=delta.low, high=delta.high, parts=_parts(c, delta), note=delta.note,
    )  # fmt: skip


def headline(deltas: Iterable[Delta]) -> Delta | None:
    """The number to lead with: a worse one first, what was measured before what was logged, one request first."""
    speeds = [d for d in deltas if d.metric in HEADLINES]
    if not speeds:
        return None

    def order(d: Delta) -> tuple[int, bool, int, float]:
        return VERDICT_ORDER.index(d.verdict), d.workload is None, HEADLINES.index(d.metric), d.concurrency or math.inf

    return min(speeds, key=order)


def _parts(c: Comparison, d: Delta) -> tuple[Part, ...]:
    if d.metric not in DECODE:
        name = PREFILL if d.metric in ("prefill_tok_s", "ttft_ms") else STEP
        return (Part(name, d.factor, low=d.low, high=d.high),)
    tokens = tokens_factor(c, d.workload, d.concurrency)
    if tokens is None:
        return (Part(STEP, d.factor, low=d.low, high=d.high, note=HIDDEN),)
    if math.isclose(tokens, 1.0, abs_tol=1e-9):
        return (Part(STEP, d.factor, low=d.low, high=d.high),)
    measured = step_factor(c, d.workload, d.concurrency)
    first = Part(TOKENS, tokens, note=ASSUMED if _assumed(c) else "")
    if measured is None:
        return (first, Part(STEP, d.factor / tokens, note="what is left after tokens per step"))
    return (first, Part(STEP, measured), Part(RESIDUAL, d.factor / (tokens * measured)))


def _assumed(c: Comparison) -> bool:
    """Whether the baseline's tokens per step were never measured: the split then rests on an assumption."""
    return c.was is not None and any(s.metric in LENGTHS and s.conditions.get("assumed") for s in c.was.samples)


# -- tokens per step --------------------------------------------------------------------------------------------------


def tokens_factor(c: Comparison, workload: str | None = None, concurrency: float | None = None) -> float | None:
    """A_now / A_then under the closest like conditions; None when one side does not know its A."""
    known = [d for d in c.deltas if d.metric in LENGTHS]
    if known:
        closest = min(
            known, key=lambda d: (d.workload != workload, d.concurrency != concurrency, d.metric != LENGTHS[0])
        )
        return closest.factor
    if c.was is None:
        return None
    now, was = tokens_per_step(c.now, concurrency), tokens_per_step(c.was, concurrency)
    return None if now is None or was is None else now / was


def tokens_per_step(s: Snapshot, concurrency: float | None = None) -> float | None:
    """Acceptance length with the bonus token; 1 where speculation is known to be off; None when unknown."""
    # a mean since the server's start says little about now
    fresh = [x for x in s.samples if "since" not in str(x.conditions.get("from", ""))] or list(s.samples)
    found = [x for x in fresh if x.metric == LENGTHS[0]] or [x for x in fresh if x.metric == LENGTHS[1]]
    near = [x for x in found if concurrency is not None and x.concurrency == concurrency]
    values = [x.value for x in near or found] or [i.accept_length for i in steady(s.intervals) if i.accept_length]
    if values:
        return float(median(values))
    return 1.0 if s.value("spec.method") == "none" or drafts_nothing(s) else None


def drafts_nothing(s: Snapshot) -> bool:
    """Whether the engine's own counters show tokens written over a while and not one draft."""
    drafts, written = s.counter(*DRAFTS), s.counter(*WRITTEN)
    return drafts == 0 and (written or 0) > ENOUGH


def step_factor(c: Comparison, workload: str | None, concurrency: float | None) -> float | None:
    """t_then / t_now from step times that were measured, not derived from tok/s."""
    like = [d for d in c.delta("step_time_ms") if (d.workload, d.concurrency) == (workload, concurrency)]
    return like[0].factor if like and workload is not None else None


# -- losses -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """How much of the speed each factor lost, as -log of its speed factor; None: not known."""

    tokens: float | None = None
    step: float | None = None
    prefill: float | None = None
    queue: float | None = None

    def of(self, touch: str) -> float | None:
        """The loss of one factor, by the name a finding's `touches` gives it."""
        return {TOKENS: self.tokens, STEP: self.step, PREFILL: self.prefill, QUEUE: self.queue}.get(touch)


def losses(c: Comparison) -> Loss:
    """The losses that a comparison shows, factor by factor, each at its worst condition."""
    decode = [d for d in c.deltas if d.metric in DECODE]
    tokens = step = None
    if decode:
        worst = min(decode, key=lambda d: (VERDICT_ORDER.index(d.verdict), d.workload is None, d.factor))
        a = tokens_factor(c, worst.workload, worst.concurrency)
        if a is not None:
            tokens, step = -_log(a), -_log(worst.factor / a)
    else:
        accepted = c.delta("accept_length")
        if accepted:
            tokens = -_log(accepted[0].factor)
        timed = c.delta("step_time_ms")
        if timed:
            step = -_log(timed[0].factor)
    first = [d for d in c.deltas if d.metric in ("prefill_tok_s", "ttft_ms")]
    prefill = max((-_log(d.factor) for d in first), default=None)
    waits = [d for d in c.deltas if d.metric == "ttft_ms" and (d.concurrency or 1) > 1]
    queue = max((-_log(d.factor) for d in waits), default=None)
    return Loss(tokens, step, prefill, queue)


def _log(x: float) -> float:
    return math.log(max(x, 1e-6))


# -- speculation ------------------------------------------------------------------------------------------------------


def best_depth(per_position: tuple[float, ...]) -> tuple[float, ...]:
    """A(K) for K = 0..n from the measured marginal curve: 1 + sum of the first K positions (MEASURING.md 5.2).

    An upper bound for shorter blocks: it ignores that a shorter block drafts differently.
    """
    out = [1.0]
    for p in per_position:
        out.append(out[-1] + p)
    return tuple(out)


def implied_depth(accept_length: float, accept_rate: float) -> float | None:
    """K from A = 1 + K x rate; None when nothing was accepted."""
    return (accept_length - 1) / accept_rate if accept_rate > 0 else None


def steady(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Intervals that show serving as it is, not idling, warming up or draining."""
    return tuple(i for i in intervals if i.steady)


def curve(s: Snapshot) -> tuple[float, ...]:
    """The acceptance curve by draft position: the mean over steady intervals, padded to the longest."""
    rows = [i.per_position for i in steady(s.intervals) if i.per_position]
    rows = rows or [i.per_position for i in s.intervals if i.per_position]
    if not rows:
        return ()
    n = max(map(len, rows))
    return tuple(sum(r[k] for r in rows if len(r) > k) / max(1, sum(len(r) > k for r in rows)) for k in range(n))
