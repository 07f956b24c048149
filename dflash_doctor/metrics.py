"""One row per number we compare: name, unit, which way is better, how much a single value may wander.

The names are those of CONTRACTS.md §2 (load.yaml), used everywhere; a name says its unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower", "neither"]


@dataclass(frozen=True)
class Metric:
    """One number we compare."""

    name: str
    label: str  # for people
    unit: str
    better: Better
    noise: float = 0.20  # relative difference that two lone values may show by chance (CONTRACTS.md §2)


_ROWS = (
    Metric("output_tok_s", "output speed", "tok/s", "higher"),
    Metric("total_tok_s", "total throughput", "tok/s", "higher"),
    Metric("prefill_tok_s", "prefill speed", "tok/s", "higher"),
    Metric("decode_tok_s", "decode speed per request", "tok/s", "higher"),
    Metric("req_s", "requests per second", "req/s", "higher"),
    Metric("ttft_ms", "time to first token", "ms", "lower", 0.30),  # queueing and prefill make it the noisiest
    Metric("tpot_ms", "time per output token", "ms", "lower"),
    Metric("itl_ms", "gap between chunks", "ms", "lower"),
    Metric("e2e_ms", "request latency", "ms", "lower"),
    Metric("step_time_ms", "step time", "ms", "lower"),
    Metric("accept_length", "tokens per step", "tokens", "higher", 0.12),  # MEASURING.md 4.3: 12 % per prompt
    Metric("accept_rate", "draft acceptance", "share", "higher", 0.20),
    Metric("accept_first", "acceptance of the first draft position", "share", "higher", 0.15),
    Metric("tokens_per_chunk", "tokens per chunk", "tokens", "higher", 0.12),
    Metric("kv_tokens", "KV cache room", "tokens", "higher", 0.05),  # profiling differs by a few blocks between boots
    Metric("kv_usage", "KV cache use", "share", "neither"),
    Metric("prefix_hit_rate", "prefix-cache hit rate", "share", "higher", 0.30),
    Metric("preemptions", "preemptions", "", "lower", 0.9),
    Metric("running", "running requests", "", "neither"),
    Metric("waiting", "waiting requests", "", "lower", 0.9),
    Metric("duration_s", "duration", "s", "neither"),
    Metric("cv_percent", "spread", "%", "neither"),
    Metric("rtf", "real-time factor", "x", "higher"),
)

METRICS: dict[str, Metric] = {m.name: m for m in _ROWS}


def speed_factor(metric: str, was: float, now: float) -> float:
    """Now against then so that below 1 is slower: now/was for a rate, was/now for a time."""
    row = METRICS[metric]
    if was <= 0 or now <= 0:
        return 1.0 if was == now else (0.0 if (row.better == "higher") == (now < was) else float("inf"))
    return was / now if row.better == "lower" else now / was
