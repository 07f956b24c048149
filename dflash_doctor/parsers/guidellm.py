"""GuideLLM's benchmarks.json (0.8; 0.2 and later are alike): one entry of `benchmarks` is one load.

    {"metadata": {"guidellm_version": "0.8.1"}, "benchmarks": [{"config": {"strategy": {"type_": "concurrent", "streams": 4}},
      "metrics": {"request_totals": {"successful": 96, "errored": 0}, "output_tokens_per_second": {"successful": {"mean": 161.0}},
                  "time_to_first_token_ms": {"successful": {"mean": 417.0, "median": 402.1, "percentiles": {"p99": 800.0}}}}}]}

Its `time_per_output_token_ms` includes the prefill, so it is not TPOT; its `inter_token_latency_ms` ends at the last token and
is. `request_latency` is in seconds.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dflash_doctor.model import Facts, Gap, Sample
from dflash_doctor.parsers.results import PERCENTILES, UNNAMED, Result, known, number

TOOL = "guidellm"
# its metric -> ours, the factor to our unit, and whether a mean alone tells it
ROWS = (
    ("requests_per_second", "req_s", 1.0, True),
    ("output_tokens_per_second", "output_tok_s", 1.0, True),
    ("tokens_per_second", "total_tok_s", 1.0, True),
    ("time_to_first_token_ms", "ttft_ms", 1.0, False),
    ("inter_token_latency_ms", "tpot_ms", 1.0, False),
    ("request_latency", "e2e_ms", 1000.0, False),
    ("output_tokens_per_iteration", "tokens_per_chunk", 1.0, True),
)


def read(doc: Mapping[str, Any], source: str, line: int) -> Facts | None:
    """The samples of every load; None when the file is not GuideLLM's."""
    loads = doc.get("benchmarks")
    if not isinstance(loads, list) or not any(
        isinstance(b, Mapping) and isinstance(b.get("metrics"), Mapping) for b in loads
    ):
        return None
    samples: list[Sample] = []
    gaps: list[Gap] = []
    for load in loads:
        metrics = load.get("metrics") if isinstance(load, Mapping) else None
        if not isinstance(metrics, Mapping):
            continue
        totals = _mapping(metrics.get("request_totals"))
        result = _result(load, metrics, source, line)
        gaps += result.gap_for(totals.get("errored"), totals.get("successful"))
        for name, metric, factor, lone in ROWS:
            samples += _samples(result, metrics.get(name), metric, factor, lone=lone)
    return Facts(samples=tuple(samples), gaps=tuple(gaps))


def _result(load: Mapping[str, Any], metrics: Mapping[str, Any], source: str, line: int) -> Result:
    config = _mapping(load.get("config", load.get("args")))
    strategy = _mapping(config.get("strategy"))
    kind = strategy.get("type_") or strategy.get("kind")
    at_once = 1.0 if kind == "synchronous" else number(strategy.get("streams", strategy.get("max_concurrency")))
    lengths = {
        name: round(mean, 1)
        for name, field in (("mean_input_tokens", "prompt_token_count"), ("mean_output_tokens", "output_token_count"))
        if (mean := number(_part(metrics.get(field)).get("mean"))) is not None
    }
    model = _mapping(config.get("backend")).get("model")
    asked = known(strategy=kind, request_rate=strategy.get("rate"), model=model)
    return Result(TOOL, source, line, UNNAMED, at_once, {**asked, **lengths})


def _samples(result: Result, raw: Any, metric: str, factor: float, *, lone: bool) -> Iterator[Sample]:
    part = _part(raw)
    spread = _mapping(part.get("percentiles"))
    beside = {p: v * factor for p in PERCENTILES if (v := number(spread.get(p))) is not None}
    mean, median = number(part.get("mean")), number(part.get("median"))
    yield from result.sample(
        metric, None if mean is None else mean * factor, "" if lone else "mean", **({} if lone else beside)
    )
    if not lone:
        yield from result.sample(metric, None if median is None else median * factor, "median")


def _part(raw: Any) -> Mapping[str, Any]:
    """Of the requests that ended well."""
    whole = _mapping(raw)
    return _mapping(whole.get("successful", whole.get("total", whole)))


def _mapping(raw: Any) -> Mapping[str, Any]:
    return raw if isinstance(raw, Mapping) else {}
