"""/metrics as the engine of that version exposes it: real names, real labels, what was really served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dflash_doctor.simulate.scenario import Scenario
from dflash_doctor.simulate.tally import Histogram, Sums, Tally

Value = float | Histogram | Mapping[str, float]  # a mapping: one series per ready-made label text


@dataclass(frozen=True)
class Row:
    """One metric family and the versions that have it."""

    name: str
    kind: str
    help: str
    value: Callable[[Tally, Scenario], Value]
    since: tuple[int, ...] = (0,)
    until: tuple[int, ...] = (9999,)


def release(version: str) -> tuple[int, ...]:
    """`0.20.1` -> (0, 20, 1); what is no number ends it."""
    numbers = []
    for part in version.split("+")[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def _sum(name: str) -> Callable[[Tally, Scenario], Value]:
    return lambda t, s: float(getattr(t.sums, name))


def _histogram(name: str) -> Callable[[Tally, Scenario], Histogram]:
    def pick(t: Tally, s: Scenario) -> Histogram:
        found = getattr(t, name)
        assert isinstance(found, Histogram)
        return found

    return pick


def _use(t: Tally, s: Scenario) -> float:
    return t.kv_used / s.kv_tokens


def _cache_config(t: Tally, s: Scenario) -> Mapping[str, float]:
    facts = {
        "block_size": s.page_size, "cache_dtype": s.flags.get("kv-cache-dtype", "auto"),
        "enable_prefix_caching": s.prefix_cache, "gpu_memory_utilization": s.flags.get("gpu-memory-utilization", 0.9),
        "num_gpu_blocks": s.kv_tokens // s.page_size, "num_gpu_blocks_override": None, "sliding_window": None,
    }  # fmt: skip
    if release(s.version) >= (0, 27):
        facts["kv_cache_size_tokens"] = s.kv_tokens
    return {",".join(f'{k}="{v}"' for k, v in facts.items()): 1.0}


REASONS = ("stop", "length", "abort", "error", "repetition")

VLLM = (
    Row("num_requests_running", "gauge", "Number of requests in model execution batches.", lambda t, s: t.running),
    Row("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", lambda t, s: t.waiting),
    Row("num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason.",
        lambda t, s: {'reason="capacity"': t.waiting, 'reason="deferred"': 0}, since=(0, 20)),
    Row("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", _use, since=(0, 11)),
    Row("gpu_cache_usage_perc", "gauge", "GPU KV-cache usage. 1 means 100 percent usage.", _use, until=(0, 11)),
    Row("prefix_cache_queries", "counter", "Prefix cache queries, in terms of number of queried tokens.",
        _sum("queries"), since=(0, 11)),
    Row("prefix_cache_hits", "counter", "Prefix cache hits, in terms of number of cached tokens.",
        _sum("hits"), since=(0, 11)),
    Row("gpu_prefix_cache_queries", "counter", "GPU prefix cache queries, in terms of number of queried tokens.",
        _sum("queries"), until=(0, 11)),
    Row("gpu_prefix_cache_hits", "counter", "GPU prefix cache hits, in terms of number of cached tokens.",
        _sum("hits"), until=(0, 11)),
    Row("num_preemptions", "counter", "Cumulative number of preemption from the engine.", _sum("preemptions")),
    Row("prompt_tokens", "counter", "Number of prefill tokens processed.", _sum("prompt")),
    Row("prompt_tokens_by_source", "counter", "Number of prompt tokens by source.",
        lambda t, s: {'source="local_compute"': t.sums.prompt - t.sums.cached, 'source="local_cache_hit"':
                      t.sums.cached, 'source="external_kv_transfer"': 0}, since=(0, 20)),
    Row("prompt_tokens_cached", "counter", "Number of cached prompt tokens (local + external).",
        _sum("cached"), since=(0, 20)),
    Row("generation_tokens", "counter", "Number of generation tokens processed.", _sum("generated")),
    Row("request_success", "counter", "Count of successfully processed requests.",
        lambda t, s: {f'finished_reason="{r}"': t.finished[r] for r in REASONS}),
    Row("request_prompt_tokens", "histogram", "Number of prefill tokens processed.", _histogram("prompts")),
    Row("request_generation_tokens", "histogram", "Number of generation tokens processed.", _histogram("outputs")),
    Row("iteration_tokens_total", "histogram", "Histogram of number of tokens per engine_step.",
        _histogram("step_tokens")),
    Row("time_to_first_token_seconds", "histogram", "Histogram of time to first token in seconds.",
        _histogram("ttft")),
    Row("inter_token_latency_seconds", "histogram", "Histogram of inter-token latency in seconds.",
        _histogram("itl"), since=(0, 11)),
    Row("time_per_output_token_seconds", "histogram", "Histogram of time per output token in seconds.",
        _histogram("itl"), until=(0, 20)),
    Row("request_time_per_output_token_seconds", "histogram",
        "Histogram of time_per_output_token_seconds per request.", _histogram("tpot"), since=(0, 11)),
    Row("e2e_request_latency_seconds", "histogram", "Histogram of e2e request latency in seconds.",
        _histogram("e2e")),
    Row("request_queue_time_seconds", "histogram", "Histogram of time spent in WAITING phase for request.",
        _histogram("queue")),
    Row("request_inference_time_seconds", "histogram", "Histogram of time spent in RUNNING phase for request.",
        _histogram("inference")),
    Row("request_prefill_time_seconds", "histogram", "Histogram of time spent in PREFILL phase for request.",
        _histogram("prefill")),
    Row("request_decode_time_seconds", "histogram", "Histogram of time spent in DECODE phase for request.",
        _histogram("decode")),
    Row("cache_config_info", "gauge", "Information of the LLMEngine CacheConfig", _cache_config),
)  # fmt: skip

VLLM_DRAFTS = (
    Row("spec_decode_num_drafts", "counter", "Number of spec decoding drafts.", _sum("drafts")),
    Row("spec_decode_num_draft_tokens", "counter", "Number of draft tokens.", lambda t, s: t.sums.drafts * t.depth),
    Row("spec_decode_num_accepted_tokens", "counter", "Number of accepted tokens.", _sum("accepted")),
    Row("spec_decode_num_accepted_tokens_per_pos", "counter", "Accepted tokens per draft position.",
        lambda t, s: {f'position="{i}"': n for i, n in enumerate(t.sums.per_position)}),
)  # fmt: skip

SGLANG = (
    Row("num_running_reqs", "gauge", "The number of running requests.", lambda t, s: t.running),
    Row("num_used_tokens", "gauge", "The number of used tokens.", lambda t, s: t.kv_used),
    Row("token_usage", "gauge", "The token usage.", _use),
    Row("num_queue_reqs", "gauge", "The number of requests in the waiting queue.", lambda t, s: t.waiting),
    Row("max_total_num_tokens", "gauge", "Maximum total number of tokens in the KV cache pool.",
        lambda t, s: s.kv_tokens, since=(0, 5, 10)),
    Row("cache_config_info", "gauge", "Information of the KV cache.",
        lambda t, s: {f'num_pages="{s.kv_tokens // s.page_size}",page_size="{s.page_size}"': 1},
        since=(0, 5, 10), until=(0, 5, 11)),
    Row("is_cuda_graph", "gauge", "Whether the last batch is using CUDA graph.", lambda t, s: s.log.graph,
        since=(0, 5, 10)),
    Row("cuda_graph_passes", "counter", "Total number of forward passes categorized by CUDA graph.",
        lambda t, s: {'mode="prefill_none"': t.sums.steps - t.sums.decode_steps,
                      f'mode="{"decode_cuda_graph" if s.log.graph else "decode_none"}"': t.sums.decode_steps},
        since=(0, 5, 10)),
    Row("realtime_tokens", "counter", "Total number of tokens processed.",
        lambda t, s: {'mode="prefill_compute"': t.sums.computed, 'mode="decode"': t.sums.generated,
                      'mode="prefill_cache"': t.sums.cached}, since=(0, 5, 10)),
    Row("num_retracted_requests", "counter", "Total number of retracted requests.", _sum("preemptions"),
        since=(0, 5, 10)),
)  # fmt: skip

# what the tokenizer process counts: without the scheduler's rank labels, and moving when requests end
SGLANG_FRONT = (
    Row("prompt_tokens", "counter", "Number of prefill tokens processed.", _sum("finished_prompt")),
    Row("generation_tokens", "counter", "Number of generation tokens processed.", _sum("finished_generated")),
    Row("cached_tokens", "counter", "Number of cached prompt tokens.", _sum("finished_cached")),
    Row("num_requests", "counter", "Number of requests processed.", _sum("requests")),
    Row("spec_verify_calls", "counter", "Number of speculative verification calls.", _sum("verifies"),
        since=(0, 5, 23)),
    Row("time_to_first_token_seconds", "histogram", "Histogram of time to first token in seconds.",
        _histogram("sg_ttft")),
    Row("inter_token_latency_seconds", "histogram", "Histogram of inter-token latency in seconds.",
        _histogram("sg_itl")),
    Row("request_time_per_output_token_seconds", "histogram", "Histogram of time per output token per request.",
        _histogram("sg_tpot"), since=(0, 5, 23)),
    Row("e2e_request_latency_seconds", "histogram", "Histogram of End-to-end request latency in seconds",
        _histogram("sg_e2e")),
    Row("queue_time_seconds", "histogram", "Histogram of queueing time in seconds.", _histogram("sg_queue"),
        since=(0, 5, 3)),
)  # fmt: skip


def render(scenario: Scenario, tally: Tally, last: Sums, tok_s: float, started: float) -> str:
    """The exposition text. `last` and `tok_s` are of the last decode-batch line, for SGLang's gauges."""
    out: list[str] = []
    name = scenario.model.name.replace("\\", "\\\\").replace('"', '\\"')
    if scenario.engine == "vllm":
        labels = f'engine="0",model_name="{name}"'
        rows = VLLM + (VLLM_DRAFTS if tally.depth else ())
        out += _exposed("vllm", rows, labels, scenario, tally)
    else:
        front = f'engine_type="unified",model_name="{name}"'
        rank = f'{front},moe_ep_rank="0",pp_rank="0",tp_rank="0"'
        out += _exposed("sglang", SGLANG + _sglang_gauges(scenario, last, tok_s), rank, scenario, tally)
        out += _exposed("sglang", SGLANG_FRONT, front, scenario, tally)
    out += ["# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.",
            "# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {started!r}"]  # fmt: skip
    return "\n".join(out) + "\n"


def _sglang_gauges(scenario: Scenario, last: Sums, tok_s: float) -> tuple[Row, ...]:
    length = 1 + last.accepted / last.drafts if last.drafts else 0.0
    hits = last.hits / last.queries if last.queries else 0.0
    rows = [Row("gen_throughput", "gauge", "The generation throughput (token/s).", lambda t, s: tok_s)]
    rows += [Row("cache_hit_rate", "gauge", "The prefix cache hit rate.", lambda t, s: hits)]
    if scenario.acceptance:
        rows.append(Row("spec_accept_length", "gauge", "The average acceptance length of speculative decoding.",
                        lambda t, s: length))  # fmt: skip
        rate = accept_rate(scenario, length) if length else 0.0
        rows.append(Row("spec_accept_rate", "gauge", "The average acceptance rate of speculative decoding.",
                        lambda t, s: rate, since=(0, 5, 10)))  # fmt: skip
    return tuple(rows)


def accept_rate(scenario: Scenario, length: float) -> float:
    """SGLang's accept rate: to 0.5.10 the bonus token counts on both sides, later on neither."""
    depth = scenario.acceptance.depth if scenario.acceptance else 1
    return (length - 1) / depth if release(scenario.version) >= (0, 5, 23) else length / (depth + 1)


def _exposed(prefix: str, rows: Iterable[Row], labels: str, scenario: Scenario, tally: Tally) -> list[str]:
    version = release(scenario.version)
    out = []
    for row in rows:
        if not row.since <= version < row.until:
            continue
        name = f"{prefix}:{row.name}" + ("_total" if row.kind == "counter" else "")
        out += [f"# HELP {name} {row.help}", f"# TYPE {name} {row.kind}"]
        value = row.value(tally, scenario)
        if isinstance(value, Histogram):
            out += _series(name, labels, value)
        elif isinstance(value, Mapping):
            out += [f"{name}{{{labels},{more}}} {float(v)!r}" for more, v in value.items()]
        else:
            out.append(f"{name}{{{labels}}} {float(value)!r}")
    return out


def _series(name: str, labels: str, histogram: Histogram) -> list[str]:
    out, below = [], 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        below += count
        le = "+Inf" if bound == float("inf") else repr(float(bound))
        out.append(f'{name}_bucket{{{labels},le="{le}"}} {float(below)!r}')
    return [*out, f"{name}_count{{{labels}}} {float(below)!r}", f"{name}_sum{{{labels}}} {histogram.sum!r}"]
