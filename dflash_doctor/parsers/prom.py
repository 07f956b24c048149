"""metrics.prom: what the engine counts, from several looks at its /metrics. Both engines, names of all their versions.

    # scrape 2026-12-01T04:38:10Z
    vllm:spec_decode_num_drafts_total{engine="0",model_name="small"} 0.0
    # scrape 2026-12-01T04:38:26Z
    vllm:spec_decode_num_drafts_total{engine="0",model_name="small"} 233.0

Counters become growth between neighbouring scrapes; a lone scrape gives totals since the server started, which also
hold its warm-up and everybody's traffic, so its figures are kept apart (`from`). Names are data/metrics.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dflash_doctor import settings
from dflash_doctor.model import Evidence, Facts, Gap, Sample, Setting, Unreadable
from dflash_doctor.parsers import counted
from dflash_doctor.parsers.scrapes import Read, Reading, Scrape, read, table
from dflash_doctor.parsers.stretches import Stretch, between, counters, witnesses
from dflash_doctor.parsers.texts import refuse_binary

READS: tuple[str, ...] = ("metrics.prom",)

# labels of vllm:cache_config_info that are settings
CACHE_LABELS = (
    "block_size", "gpu_memory_utilization", "cache_dtype", "enable_prefix_caching", "kv_cache_memory_bytes",
    "cpu_offload_gb",
)  # fmt: skip


def parse(text: str, source: str) -> Facts:
    """Counters, samples and settings of one text. Raises Unreadable when no engine speaks in it."""
    refuse_binary(text, "a Prometheus exposition")
    found = read(text)
    engine = _engine(found)
    if engine is None:
        raise Unreadable(_why_not(found))
    stretches = between(found)
    last = found.scrapes[-1]
    capacity = _capacity(engine, last, source)
    return Facts(
        engine=engine,
        settings=(*_settings(engine, last, source), *_depth(engine, stretches[-1], source)),
        samples=(*(s for w in witnesses(stretches) for s in counted.samples(engine, w, source)), *capacity),
        counters=tuple(counters(stretches, source)),
        host=_host(last),
        gaps=tuple(_gaps(engine, found, source)),
        served=_served(engine, stretches, last),
    )


def _engine(found: Read) -> str | None:
    names = [s[0] for scrape in found.scrapes for s in scrape.values]
    spoken = {e: sum(n.startswith(f"{e}:") for n in names) for e in ("vllm", "sglang")}
    return max(spoken, key=lambda e: spoken[e]) if any(spoken.values()) else None


def _why_not(found: Read) -> str:
    if found.others:
        return f"no metric of vLLM or SGLang in it; its names begin with {', '.join(sorted(found.others)[:6])}"
    if found.bad:
        return f"not a Prometheus exposition; it begins with: {found.bad[0][1][:120]}"
    return "no metric in it; SGLang gives them only with --enable-metrics"


def _gaps(engine: str, found: Read, source: str) -> Iterator[Gap]:
    if found.bad:
        number, line = found.bad[0]
        many = f"{len(found.bad)} lines" if len(found.bad) > 1 else "a line"
        yield Gap(source, f"{many} could not be read, the first is line {number}: {line[:120]}")
    names = {s[0] for scrape in found.scrapes for s in scrape.values}
    starts = {r.value for s in found.scrapes for (n, _), r in s.values.items() if n == "process_start_time_seconds"}
    if len(starts) > 1 and len(found.scrapes) > 1:
        yield Gap(source, "the server was restarted between two scrapes: what it counted in between is lost")
    if found.kinds:  # a whole exposition, not lines picked by hand: then what is missing is missing
        whole = {q: row["names"] for q, row in table()[engine].items() if row.get("whole")}
        parts = {n.rpartition("_")[0] for n in names if n.endswith(("_sum", "_count"))}
        lost = [q.replace("_", " ") for q, spelled in whole.items() if not (names | parts).intersection(spelled)]
        if lost:
            yield Gap(f"{source}: {', '.join(lost)}", f"this {engine} does not expose it under any name we know")


def _host(last: Scrape) -> dict[str, Any]:
    for (name, _), reading in last.values.items():
        if name == "process_start_time_seconds":
            return {"process_start": reading.value}
    return {}


def _served(engine: str, stretches: list[Stretch], last: Scrape) -> bool | None:
    """Requests that ended well prove that it serves; none prove nothing."""
    (name,) = table()[engine]["finished"]["names"]
    ended = [
        r.value for (n, labels), r in last.values.items()
        if n == name and dict(labels).get("finished_reason") not in ("abort", "error")
    ]  # fmt: skip
    return True if sum(ended) > 0 else None


# -- settings that hide in metrics ------------------------------------------------------------------------------------


def _settings(engine: str, last: Scrape, source: str) -> Iterator[Setting]:
    if engine == "sglang":
        for quantity, key in (("page_size", "kv.page_size"), ("context", "mem.max_context")):
            name = table()["sglang"][quantity]["names"][0]
            values = [r for (n, _), r in last.values.items() if n == name and 0 < r.value < 2**53]
            yield from (Setting(key, int(r.value), "effective", name, _where(r, source)) for r in values[:1])
        return
    for (name, labels), reading in last.values.items():
        if name == "vllm:cache_config_info":
            said = {k: v for k, v in labels if k in CACHE_LABELS and v not in ("None", "")}
            yield from settings.from_args("vllm", said, None, "effective", _where(reading, source))
            return


def _depth(engine: str, s: Stretch, source: str) -> Iterator[Setting]:
    """SGLang's present draft depth: it may adapt while it runs."""
    name = table()["sglang"]["draft_tokens"]["names"][0]
    depth, line = (counted.draft_depth(s), s.line(name)) if engine == "sglang" else (None, None)
    if depth and line is not None:
        yield Setting("spec.depth", depth, "effective", name, _where(line, source))


def _capacity(engine: str, last: Scrape, source: str) -> tuple[Sample, ...]:
    """Room of the KV cache in tokens; data-parallel engines have one each, and they are alike."""
    for (name, labels), reading in last.values.items():
        tokens = _tokens(name, dict(labels), reading)
        if tokens is not None:
            return (Sample("kv_tokens", tokens, evidence=_where(reading, source)),)
    return ()


def _tokens(name: str, labels: Mapping[str, str], reading: Reading) -> float | None:
    if name == "sglang:max_total_num_tokens":
        return reading.value if reading.value > 0 else None
    if name != "vllm:cache_config_info":
        return None
    said = labels.get("kv_cache_size_tokens", "")  # since 0.27; models with several kinds of layers need it
    if said.isdigit() and len(said) < 16:
        return float(said)
    blocks, size = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
    if blocks.isdigit() and size.isdigit() and len(blocks + size) < 16:
        return float(blocks) * float(size)
    return None


def _where(reading: Reading, source: str) -> Evidence:
    return Evidence(source, reading.text[:400], reading.line)
