"""Names and amounts as people and other tools write them: `TTFT (ms)`, `tok/s`, `1.2 s`, `35-107`, `~45`, `1,270,042`.

Every number ends under a name of metrics.py in that metric's unit, every condition under its name of CONTRACTS.md §2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dflash_doctor.metrics import METRICS

# metric -> other spellings, as `plain` leaves them
METRIC_NAMES = {
    "output_tok_s": (
        "tok_s", "toks", "tokens_s", "tps", "tokens_per_second", "tokens_per_s", "output_tokens_per_second", "speed",
        "output_token_throughput", "output_throughput", "output_throughput_tok_s", "throughput", "throughput_tok_s",
        "generation_tok_s", "gen_tok_s", "generation_throughput", "gen_throughput", "decode_throughput", "eval_tok_s",
    ),
    "total_tok_s": ("total_throughput", "total_token_throughput", "total_tokens_per_second", "overall_throughput"),
    "prefill_tok_s": (
        # not input_throughput: that is input tokens over the whole run's time, whatever the prefill did
        "prefill", "prefill_throughput", "prompt_tok_s", "prompt_throughput", "pp_tok_s", "prompt_eval_tok_s",
    ),
    "decode_tok_s": (
        "tok_s_per_user", "tok_s_user", "tokens_per_second_per_user", "output_token_throughput_per_user",
        "per_user_tok_s",
    ),
    "req_s": ("request_throughput", "requests_per_second", "requests_s", "rps", "qps"),
    "ttft_ms": ("ttft", "time_to_first_token", "first_token"),
    "tpot_ms": ("tpot", "time_per_output_token"),
    "itl_ms": ("itl", "inter_token_latency", "chunk_gap"),
    "e2e_ms": ("e2e", "e2el", "e2e_latency", "end_to_end_latency", "request_latency"),
    "step_time_ms": ("step_time",),
    "accept_length": (
        "acceptance_length", "accept_len", "mean_acceptance_length", "mean_accept_length", "avg_accept_length",
        "acc_length", "acc_len", "spec_accept_length", "accepted_length", "al", "tau", "tokens_per_step",
        "average_acceptance_length",
    ),
    "accept_rate": ("acceptance_rate", "draft_acceptance_rate", "acceptance", "avg_draft_acceptance_rate"),
    "kv_tokens": ("kv_cache_tokens", "kv_cache_size", "kv_room"),
    "prefix_hit_rate": ("cache_hit_rate", "prefix_cache_hit_rate"),
    "duration_s": ("duration", "wall_s", "wall", "elapsed", "elapsed_s", "seconds", "total_time_s", "time_s"),
    "cv_percent": ("cv", "cv_pct"),
}  # fmt: skip
CONDITION_NAMES = {
    "workload": ("name", "task", "test", "benchmark", "scenario", "case"),
    "concurrency": (
        "batch", "batch_size", "bs", "users", "streams", "parallel", "max_concurrency", "conc", "c", "num_concurrency",
        "requests_at_once", "concurrent",
    ),
    "request_rate": ("rate",),
    "input_tokens": ("input_len", "input_length", "isl", "prompt_tokens", "prompt_len", "in_tokens", "context_tokens"),
    "output_tokens": ("output_len", "output_length", "osl", "gen_tokens", "completion_tokens", "out_tokens"),
    "temperature": ("temp",),
}  # fmt: skip
_METRIC_OF = {s: m for m, spelled in METRIC_NAMES.items() for s in spelled} | {m: m for m in METRICS}
_CONDITION_OF = {s: c for c, spelled in CONDITION_NAMES.items() for s in spelled}
# what a spelling may say of the time's unit -> milliseconds
TIME_ENDS = {"_seconds": 1000.0, "_sec": 1000.0, "_s": 1000.0, "_us": 0.001, "_ms": 1.0}
TIMES = {m for m in METRICS if m.endswith("_ms")}
SHARES = {m.name for m in METRICS.values() if m.unit == "share"}
# a value with one of these in front is not the mean
STATISTICS = re.compile(r"(?P<which>mean|avg|average|median|p50|min|max|std|p\d{1,2}(?:_\d{1,2})?)_(?P<rest>.+)")

NUMBER = r"(?:\d{1,3}(?:[,_' ]\d{3}){1,5}(?:\.\d{1,9})?|\d{1,18}(?:[.,]\d{1,18})?)(?:[eE][+-]?\d{1,3})?"
AMOUNT = re.compile(
    rf"(?P<about>~|≈|<|>|≤|≥|ca\.?|about)? ?(?P<n>{NUMBER})(?: ?(?:-|–|—|to|\.\.) ?(?P<m>{NUMBER}))?"
    rf"(?: ?(?:±|\+-|\+/-) ?(?P<spread>{NUMBER}))? ?(?P<kilo>[kKM](?![a-zA-Z]))?"
    r" ?(?P<unit>%|[a-zA-Zµμ][a-zA-Zµμ/._]{0,20}(?: [a-zA-Z/]{1,20})?)?"
)
UNIT_MS = {
    "ms": 1.0,
    "s": 1000.0,
    "sec": 1000.0,
    "seconds": 1000.0,
    "second": 1000.0,
    "us": 0.001,
    "µs": 0.001,
    "μs": 0.001,
}


def plain(name: str) -> str:
    """`TTFT (ms)` -> ttft_ms, `output tok/s` -> output_tok_s."""
    return re.sub(r"[^a-z0-9]+", "_", name[:100].lower()).strip("_")


@dataclass(frozen=True)
class Named:
    """What a name means: a metric with the factor to its unit, and which statistic of it ("" is the mean)."""

    metric: str
    scale: float = 1.0
    statistic: str = ""


def metric_of(name: str) -> Named | None:
    """The metric a name means; None when it means none."""
    written = plain(name)
    metric = _METRIC_OF.get(written)
    if metric is not None:
        return Named(metric)
    for end, scale in TIME_ENDS.items():
        metric = _METRIC_OF.get(written.removesuffix(end)) if written.endswith(end) else None
        if metric in TIMES:
            return Named(metric, scale)
        if metric == "duration_s" and end != "_s":
            return Named(metric, scale / 1000)
    if written.endswith(("_percent", "_pct")):
        metric = _METRIC_OF.get(written.removesuffix("_percent").removesuffix("_pct"))
        if metric in SHARES:
            return Named(metric, 0.01)
    found = STATISTICS.fullmatch(written)
    inner = metric_of(found["rest"]) if found else None
    if found is None or inner is None or inner.statistic:
        return None
    which = found["which"]
    if which in ("std", "min", "max"):
        return None  # no middle of anything
    mean = which in ("mean", "avg", "average")
    return Named(inner.metric, inner.scale, "" if mean else "median" if which == "p50" else which.replace("_", "."))


def condition_of(name: str) -> str:
    """The name of a condition; one that nobody knows keeps its own."""
    written = plain(name)
    return _CONDITION_OF.get(written, written)


@dataclass(frozen=True)
class Amount:
    """A value, and what its writing says beside it."""

    value: float
    beside: Mapping[str, Any] = field(default_factory=dict)


def amount(raw: Any, metric: str, scale: float = 1.0) -> Amount | None:
    """A number in the metric's unit; None when it is none. Of a range the middle, with both ends beside it."""
    if isinstance(raw, bool):
        return None
    read = (raw, {}, scale) if isinstance(raw, (int, float)) else _read(raw, metric, scale)
    if read is None:
        return None
    found, beside, factor = read
    try:
        value = float(found) * factor
    except OverflowError:
        return None
    if not abs(value) < 1e18:  # beyond anything that is measured, infinity and not-a-number included
        return None
    if metric in SHARES and 1 < value <= 100:
        value, beside = value / 100, {k: v / 100 if isinstance(v, float) else v for k, v in beside.items()}
    return Amount(value, beside)


def _read(raw: Any, metric: str, scale: float) -> tuple[float, dict[str, Any], float] | None:
    found = AMOUNT.fullmatch(" ".join(raw[:200].split())) if isinstance(raw, str) else None
    if found is None:
        return None
    factor = scale * {"k": 1e3, "K": 1e3, "M": 1e6}.get(found["kilo"] or "", 1.0)
    unit = (found["unit"] or "").strip()
    if metric in TIMES:
        factor = UNIT_MS.get(unit, factor)
    elif unit == "%" and metric in SHARES:
        factor = 0.01
    low = _number(found["n"])
    high = _number(found["m"]) if found["m"] else low
    beside: dict[str, Any] = {}
    if found["m"]:
        beside |= {"low": low * factor, "high": high * factor}
    if found["spread"]:
        beside["spread"] = _number(found["spread"]) * factor
    if found["about"]:
        beside["about"] = found["about"]
    return (low + high) / 2, beside, factor


def _number(text: str) -> float:
    """`1,270,042` and `73,5`: a comma before exactly three digits separates thousands, any other is a point."""
    if re.fullmatch(r"\d{1,3}(?:[,_' ]\d{3}){1,5}(?:\.\d+)?(?:[eE][+-]?\d+)?", text):
        return float(re.sub(r"[,_' ]", "", text))
    return float(text.replace(",", "."))
