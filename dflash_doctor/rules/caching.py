"""What several rules ask about the prefix cache: what was asked of it and how much it answered."""

from __future__ import annotations

from statistics import median

from dflash_doctor.model import Evidence, Snapshot

# prompt tokens looked up and found; the names changed between releases (data/metrics.yaml)
QUERIES = (
    "vllm:prefix_cache_queries_total",
    "vllm:gpu_prefix_cache_queries_total",
    "vllm:prefix_cache_queries",
)
HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "vllm:prefix_cache_hits")


def asked(s: Snapshot) -> float | None:
    """Prompt tokens that were looked up in the cache."""
    return s.total(*QUERIES)


def hit_rate(s: Snapshot, enough: float = 0.0) -> float | None:
    """Share of prompt tokens found in the cache; from the counters, else from the engine's own lines."""
    queries, hits = s.total(*QUERIES), s.total(*HITS)
    if queries and hits is not None and queries >= enough:
        return hits / queries
    said = [i.prefix_hit_rate for i in s.intervals if i.prefix_hit_rate is not None]
    said = said or [x.value for x in s.samples if x.metric == "prefix_hit_rate"]
    return float(median(said)) if said else None


def cache_lines(s: Snapshot) -> tuple[Evidence, ...]:
    """The counters, else the last line that tells the hit rate."""
    counted = tuple(Evidence(x.source, f"{x.name} {x.value:.0f}") for x in s.counters if x.name in (*QUERIES, *HITS))
    rows = [i for i in s.intervals if i.prefix_hit_rate is not None and i.text]
    return counted[:2] or tuple(Evidence("server.log", i.text, i.line) for i in rows[-1:])
