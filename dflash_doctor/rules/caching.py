"""What several rules ask about the prefix cache: what was asked of it and how much it answered."""

from __future__ import annotations

import re
from statistics import median

from dflash_doctor.model import Comparison, Evidence, Signal, Snapshot

# prompt tokens looked up and found; the names changed between releases (data/metrics.yaml)
QUERIES = (
    "vllm:prefix_cache_queries_total",
    "vllm:gpu_prefix_cache_queries_total",
    "vllm:prefix_cache_queries",
)
HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "vllm:prefix_cache_hits")

# what is another in every request: nothing after it can be shared
VOLATILE = re.compile(
    r"\b(?:trace|request|session|span|conversation|req|msg)[-_ ]?(?:id)?\s*[=:]\s*\S|\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
    r"|\b\d\d:\d\d:\d\d\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}|\bnonce\b",
    re.I,
)
BEGINNING = 300  # characters of a prompt; a block of the cache is 16 tokens or more
PROMPT = re.compile(r"prompt: (?P<quote>['\"])(?P<text>.*)|text=(?P<q2>['\"])(?P<t2>.*)", re.S)


def volatile(c: Comparison) -> Signal | None:
    """A logged prompt that begins with something else in every request, where prompts did not when tuned."""
    here = [s for s in c.now.find("api.request_body_logging") if VOLATILE.search(_beginning(s))]
    there = c.was.find("api.request_body_logging") if c.was else ()
    if not here or not there or any(VOLATILE.search(_beginning(s)) for s in there):
        return None
    return here[0]


def _beginning(s: Signal) -> str:
    found = PROMPT.search(s.evidence.text)
    return (found["text"] or found["t2"] or "")[:BEGINNING] if found else ""


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
