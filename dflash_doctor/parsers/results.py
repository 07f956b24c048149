"""One result of one benchmark tool, on its way to samples: each number keeps the tool's own meaning as `definition`.

Two tools may mean different things by one name (MEASURING.md 3.1), so their numbers are held against each other only
when the definitions agree. A tool's JSON and its console print say the same, and get the same definition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dflash_doctor.model import Evidence, Gap, Sample

# short names of the times in most tools' fields and prints -> metric
TIMES = {
    "ttft": "ttft_ms", "tpot": "tpot_ms", "itl": "itl_ms", "e2el": "e2e_ms", "e2e_latency": "e2e_ms",
}  # fmt: skip
# rates, named as both serving benchmarks name them
RATES = {
    "request_throughput": "req_s",
    "output_throughput": "output_tok_s",
    "total_token_throughput": "total_tok_s",
    "total_throughput": "total_tok_s",
    "duration": "duration_s",
}
PERCENTILES = ("p50", "p90", "p95", "p99")
UNNAMED = "benchmark"  # the workload, when a tool does not tell its data set


@dataclass(frozen=True)
class Result:
    """What was run, by which tool."""

    tool: str
    source: str
    line: int | None = None
    workload: str = UNNAMED
    concurrency: float | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""  # the result as the source wrote it, shortened

    def sample(self, metric: str, raw: Any, statistic: str = "", **more: Any) -> Iterator[Sample]:
        """One sample; none when the value is no number. `statistic`: mean, median …, empty where there is but one."""
        value = number(raw)
        if value is None:
            return
        definition = f"{self.tool}, {statistic}" if statistic else self.tool
        prompt = more.pop("prompt", None)
        said = more.pop("said", None) or f"{metric}: {value:.6g} ({definition})"
        yield Sample(
            metric, value, workload=self.workload, concurrency=self.concurrency, prompt=prompt,
            conditions={**self.conditions, **more, "definition": definition},
            evidence=Evidence(self.source, said[:400], self.line),
        )  # fmt: skip

    def gap_for(self, failed: Any, of: Any) -> tuple[Gap, ...]:
        """A gap when requests failed: the numbers are of those that ended well."""
        bad, all_ = number(failed), number(of)
        if not bad or bad <= 0:
            return ()
        whole = f" of {bad + all_:.0f}" if all_ is not None else ""
        return (
            Gap(f"{self.source}: {self.workload}", f"{bad:.0f}{whole} requests failed; the numbers are of the rest"),
        )


def number(raw: Any) -> float | None:
    """A finite number, or a text that is one; None for anything else."""
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        return None
    try:
        value = float(raw)
    except (ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def scaled(raw: Any, factor: float) -> float | None:
    """The same times a factor."""
    value = number(raw)
    return None if value is None else value * factor


def known(**conditions: Any) -> dict[str, Any]:
    """The conditions that are told; texts and whole numbers as they are."""
    found: dict[str, Any] = {}
    for name, raw in conditions.items():
        if isinstance(raw, str) and raw.strip():
            found[name] = raw.strip()[:200]
        elif (value := number(raw)) is not None:
            found[name] = int(value) if value == int(value) and abs(value) < 2**53 else value
        elif isinstance(raw, float):  # an infinite rate: everything at once
            found[name] = str(raw)
    return found


def mean_lengths(doc: Mapping[str, Any]) -> dict[str, Any]:
    """Mean tokens in and out per request; no condition (they wander from run to run), but worth knowing."""
    done = number(doc.get("completed"))
    if not done:
        return {}
    pairs = (("mean_input_tokens", "total_input_tokens"), ("mean_output_tokens", "total_output_tokens"))
    return {name: round(total / done, 1) for name, field_ in pairs if (total := number(doc.get(field_))) is not None}


def times_of(result: Result, doc: Mapping[str, Any], name: str, metric: str) -> Iterator[Sample]:
    """mean_ttft_ms, median_ttft_ms and the percentiles beside the mean."""
    beside = {p: v for p in PERCENTILES if (v := number(doc.get(f"{p}_{name}_ms"))) is not None}
    yield from result.sample(metric, doc.get(f"mean_{name}_ms"), "mean", **beside)
    yield from result.sample(metric, doc.get(f"median_{name}_ms", doc.get(f"p50_{name}_ms")), "median")
