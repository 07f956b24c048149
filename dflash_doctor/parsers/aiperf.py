"""AIPerf's profile_export_aiperf.json, GenAI-Perf's of the same layout, and genai-bench's aggregated metrics.

    {"schema_version": "1.4", "aiperf_version": "0.13.0", "input_config": {"phases": [{"concurrency": 4}]},
     "time_to_first_token": {"unit": "ms", "avg": 417.0, "p50": 402.1, "p99": 800.0},
     "output_token_throughput": {"unit": "tokens/sec", "avg": 161.0}}

AIPerf's inter-token latency divides by the tokens after the first *chunk*: under speculation that is not vLLM's TPOT to
the digit, and its definition says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dflash_doctor.model import Facts, Sample
from dflash_doctor.parsers.results import PERCENTILES, UNNAMED, Result, known, number

ROWS = {
    "request_throughput": "req_s",
    "output_token_throughput": "output_tok_s",
    "total_token_throughput": "total_tok_s",
    "output_token_throughput_per_user": "decode_tok_s",
    "time_to_first_token": "ttft_ms",
    "inter_token_latency": "tpot_ms",
    "inter_chunk_latency": "itl_ms",
    "request_latency": "e2e_ms",
    "spec_decode_acceptance_length": "accept_length",
    "spec_decode_draft_acceptance_rate": "accept_rate",
    "benchmark_duration": "duration_s",
}
LONE = ("req_s", "output_tok_s", "total_tok_s", "duration_s")  # one number for the whole run
UNIT = {"s": 1000.0, "sec": 1000.0, "seconds": 1000.0, "us": 0.001, "ns": 1e-6}  # of times, to milliseconds


def read(doc: Mapping[str, Any], source: str, line: int) -> Facts | None:
    """The samples of one profile; None when the file is none of theirs."""
    inside = doc.get("aggregated_metrics")
    if isinstance(inside, Mapping) and isinstance(inside.get("stats"), Mapping):
        return _genai_bench(inside, source, line)
    if not any(isinstance(doc.get(name), Mapping) and "avg" in doc[name] for name in ROWS):
        return None
    tool = "aiperf" if "aiperf_version" in doc or "schema_version" in doc else "genai-perf"
    config = doc.get("input_config")
    asked = known(
        mean_input_tokens=_average(doc, "input_sequence_length"),
        mean_output_tokens=_average(doc, "output_sequence_length"),
        request_rate=_find(config, ("rate", "request_rate")), failed=_average(doc, "error_request_count") or None,
    )  # fmt: skip
    result = Result(tool, source, line, UNNAMED, number(_find(config, ("concurrency",))), asked)
    samples = [s for name, metric in ROWS.items() for s in _samples(result, doc.get(name), metric)]
    return Facts(
        samples=tuple(samples),
        gaps=result.gap_for(_average(doc, "error_request_count"), _average(doc, "request_count")),
    )


def _samples(result: Result, raw: Any, metric: str) -> Iterator[Sample]:
    if not isinstance(raw, Mapping):
        return
    unit = str(raw.get("unit", "")).lower()
    factor = UNIT.get(unit, 1.0) if metric.endswith("_ms") else 0.01 if metric == "accept_rate" and "%" in unit else 1.0
    values = {k: v * factor for k in ("avg", *PERCENTILES) if (v := number(raw.get(k))) is not None}
    mean = values.pop("avg", None)
    if metric in LONE:
        yield from result.sample(metric, mean)
        return
    yield from result.sample(metric, mean, "mean", **values)
    yield from result.sample(metric, values.get("p50"), "median")


def _average(doc: Mapping[str, Any], name: str) -> float | None:
    inside = doc.get(name)
    return number(inside.get("avg")) if isinstance(inside, Mapping) else None


def _find(config: Any, names: tuple[str, ...], depth: int = 0) -> Any:
    """The last value of a name anywhere in the configuration: the profiling phase comes after its warm-up."""
    if depth > 5:
        return None
    if isinstance(config, list):
        inner = [_find(c, names, depth + 1) for c in config[:20]]
        return next((v for v in reversed(inner) if v is not None), None)
    if not isinstance(config, Mapping):
        return None
    here = next((config[n] for n in names if number(config.get(n)) is not None), None)
    if here is not None:
        return here
    inner = [_find(c, names, depth + 1) for c in list(config.values())[:60]]
    return next((v for v in inner if v is not None), None)


def _genai_bench(doc: Mapping[str, Any], source: str, line: int) -> Facts:
    stats = doc["stats"]
    result = Result(
        "genai-bench", source, line, str(doc.get("scenario") or UNNAMED)[:200], number(doc.get("num_concurrency"))
    )
    samples: list[Sample] = []
    for name, metric in (
        ("mean_output_throughput_tokens_per_s", "output_tok_s"),
        ("mean_total_tokens_throughput_tokens_per_s", "total_tok_s"),
        ("requests_per_second", "req_s"),
        ("run_duration", "duration_s"),
    ):
        samples += result.sample(metric, doc.get(name))
    for name, metric in (("ttft", "ttft_ms"), ("tpot", "tpot_ms"), ("e2e_latency", "e2e_ms")):
        part = stats.get(name)
        if isinstance(part, Mapping):
            values = {k: v * 1000 for k in ("mean", *PERCENTILES) if (v := number(part.get(k))) is not None}
            mean = values.pop("mean", None)
            samples += result.sample(metric, mean, "mean", **values)
            samples += result.sample(metric, values.get("p50"), "median")
    return Facts(samples=tuple(samples))
