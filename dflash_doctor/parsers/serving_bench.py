"""JSON of the engines' own benchmarks: vLLM's serve, throughput and latency; SGLang's bench_serving and one-batch.

    {"date": "20260828-025900", "endpoint_type": "openai-chat", "backend": "vllm", "model_id": "Qwen/Qwen3-30B-A3B",
     "request_rate": "inf", "max_concurrency": 8, "duration": 224.2, "completed": 32, "failed": 0,
     "output_throughput": 57.1, "mean_ttft_ms": 20092.4, "median_tpot_ms": 90.1, "p99_itl_ms": 91.9,
     "spec_decode_acceptance_rate": 38.1, "spec_decode_acceptance_length": 3.41}

Field names: vllm/benchmarks/serve.py (0.33), sglang/bench_serving.py and bench_one_batch_server.py (0.5.23). SGLang
puts the whole configuration of its server into the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dflash_doctor import settings
from dflash_doctor.model import Evidence, Facts, Sample
from dflash_doctor.parsers.results import RATES, TIMES, UNNAMED, Result, known, mean_lengths, number, scaled, times_of
from dflash_doctor.settings.environment import SECRET

MOST_REQUESTS = 20_000  # single requests of one run
# what SGLang's server_info holds besides its arguments
NOT_ARGUMENTS = ("internal_states", "version", "status", "kv_events", "model_config", "load_state")


def read(doc: Mapping[str, Any], source: str, line: int) -> Facts | None:
    """The samples of one result; None when it is none of these tools'."""
    if "overall_throughput" in doc or ("output_throughput" in doc and "batch_size" in doc):
        return _one_batch(doc, source, line)
    if "request_throughput" in doc and ("completed" in doc or "mean_ttft_ms" in doc):
        sglang = "total_throughput" in doc or "server_info" in doc or "mean_e2e_latency_ms" in doc
        return _serving(doc, source, line, "sglang.bench_serving" if sglang else "vllm bench serve")
    if "requests_per_second" in doc and "tokens_per_second" in doc:
        asked = known(num_prompts=doc.get("num_requests"))
        result = Result("vllm bench throughput", source, line, "throughput", conditions=asked)
        rows = (("req_s", "requests_per_second"), ("total_tok_s", "tokens_per_second"), ("duration_s", "elapsed_time"))
        return Facts(samples=tuple(s for metric, name in rows for s in result.sample(metric, doc.get(name))))
    if "avg_latency" in doc and isinstance(doc.get("latencies"), list):
        result = Result("vllm bench latency", source, line, "latency")
        return Facts(samples=tuple(result.sample("e2e_ms", scaled(doc["avg_latency"], 1000), "mean")))
    return None


# -- serving ----------------------------------------------------------------------------------------------------------


def _serving(doc: Mapping[str, Any], source: str, line: int, tool: str) -> Facts:
    data = doc.get("dataset_name") or doc.get("dataset")
    # lengths that were asked for; random data only: elsewhere they are defaults that nobody used
    random = isinstance(data, str) and data.startswith("random")
    asked = known(
        dataset=data, request_rate=doc.get("request_rate"), num_prompts=doc.get("num_prompts"), tag=doc.get("tag"),
        endpoint_type=doc.get("endpoint_type"), burstiness=doc.get("burstiness"), temperature=doc.get("temperature"),
        failed=doc.get("failed") or None, model=doc.get("model_id"),
        input_tokens=doc.get("random_input_len") if random else None,
        output_tokens=doc.get("random_output_len") if random else None,
    )  # fmt: skip
    workload = data or doc.get("label") or UNNAMED
    result = Result(
        tool, source, line, str(workload)[:200], number(doc.get("max_concurrency")), {**asked, **mean_lengths(doc)}
    )
    samples = [s for name, metric in RATES.items() for s in result.sample(metric, doc.get(name))]
    samples += [s for name, metric in TIMES.items() for s in times_of(result, doc, name, metric)]
    samples += _drafting(result, doc)
    samples += _each(result, doc)
    info = doc.get("server_info")
    server = _server(info, source, line) if isinstance(info, Mapping) else Facts()
    gaps = result.gap_for(doc.get("failed"), doc.get("completed"))
    return replace(server, samples=tuple(samples), gaps=gaps)


def _drafting(result: Result, doc: Mapping[str, Any]) -> Iterator[Sample]:
    """vLLM's growth of its counters over the run; SGLang's mean, which counts since the server's start."""
    yield from result.sample("accept_length", doc.get("spec_decode_acceptance_length"))
    yield from result.sample("accept_rate", scaled(doc.get("spec_decode_acceptance_rate"), 0.01))
    curve = doc.get("spec_decode_per_position_acceptance_rates")
    if isinstance(curve, list) and curve:
        yield from result.sample("accept_first", curve[0])
    length = number(doc.get("accept_length"))
    if length is not None and length >= 1:
        yield from result.sample("accept_length", length, "since server start")
    report = doc.get("cache_report")
    if isinstance(report, Mapping):
        yield from result.sample("prefix_hit_rate", scaled(report.get("cache_hit_rate_pct"), 0.01))


def _each(result: Result, doc: Mapping[str, Any]) -> Iterator[Sample]:
    """Single requests, where the tool was asked to keep them: the data set's order is their name, the seed fixes it."""
    ttfts, gaps, lengths, errors = (_list(doc, k) for k in ("ttfts", "itls", "output_lens", "errors"))
    for i, ttft in enumerate(ttfts[:MOST_REQUESTS]):
        if i < len(errors) and errors[i]:
            continue
        name = f"{result.workload} #{i}"
        if number(ttft):
            yield from result.sample("ttft_ms", scaled(ttft, 1000), "each request", prompt=name)
        mine, length = (gaps[i] if i < len(gaps) else None), (number(lengths[i]) if i < len(lengths) else None)
        if isinstance(mine, list) and length and length > 1:
            waits = [g for g in map(number, mine) if g is not None]
            if waits and sum(waits) > 0:
                tpot = 1000 * sum(waits) / (length - 1)
                yield from result.sample("tpot_ms", tpot, "each request", prompt=name)
                yield from result.sample("tokens_per_chunk", length / (len(waits) + 1), "each request", prompt=name)


def _list(doc: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = doc.get(name)
    return value if isinstance(value, list) else ()


def _server(info: Mapping[str, Any], source: str, line: int) -> Facts:
    """The configuration of the SGLang server that answered."""
    version = info.get("version") if isinstance(info.get("version"), str) else None
    said = {k: v for k, v in info.items() if k not in NOT_ARGUMENTS and not SECRET.search(str(k).upper())}
    where = Evidence(source, "server_info", line)
    found = settings.from_args("sglang", said, version, "effective", where)
    return Facts(engine="sglang", version=version, settings=found)


# -- one batch --------------------------------------------------------------------------------------------------------


def _one_batch(doc: Mapping[str, Any], source: str, line: int) -> Facts:
    """A batch of equal prompts, prefilled and decoded together; times in seconds."""
    server = "latency" in doc or "last_ttft" in doc
    result = Result(
        "sglang.bench_one_batch_server" if server else "sglang.bench_one_batch", source, line,
        str(doc.get("run_name") or "one batch")[:200], number(doc.get("batch_size")),
        known(input_tokens=doc.get("input_len"), output_tokens=doc.get("output_len")),
    )  # fmt: skip
    rows = (
        ("output_tok_s", doc.get("output_throughput", doc.get("median_decode_throughput"))),
        ("prefill_tok_s", doc.get("input_throughput", doc.get("prefill_throughput"))),
        ("total_tok_s", doc.get("overall_throughput")),
        ("e2e_ms", scaled(doc.get("latency", doc.get("total_latency")), 1000)),
        ("ttft_ms", scaled(doc.get("last_ttft", doc.get("prefill_latency")), 1000)),
        ("step_time_ms", scaled(doc.get("median_decode_latency"), 1000)),
        ("accept_length", length if (length := number(doc.get("acc_length"))) and length >= 1 else None),
        ("prefix_hit_rate", doc.get("cache_hit_rate")),
    )
    return Facts(samples=tuple(s for metric, value in rows for s in result.sample(metric, value)))
