"""The few server counters that the load rounds need, from `/metrics` text of either engine.

    vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="3"} 167.0
    sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 2.0

What data-parallel engines say is added up; the ranks of one engine repeat each other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from statistics import mean

from dflash_doctor.formats.load import Server

LINE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>[^ ]+)")
POSITION = re.compile(r'position="(\d{1,4})"')
# SGLang with --enable-metrics-for-all-schedulers: every rank of one engine tells the same
RANK = re.compile(r'\b(?:tp|pp|moe_ep)_rank="[^"]*",?')

RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs")
WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs")
DRAFTS = ("vllm:spec_decode_num_drafts_total", "sglang:spec_verify_calls_total")  # SGLang since 0.5.23
ACCEPTED = ("vllm:spec_decode_num_accepted_tokens_total",)
POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
LAST_LENGTH = (
    "sglang:spec_accept_length"  # a gauge: the last interval's mean, bonus counted, 0 until something is drafted
)
GENERATED = ("vllm:generation_tokens_total", "sglang:generation_tokens_total")
PROMPT = ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total")
ENDED = ("sglang:num_requests_total",)
HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "sglang:cached_tokens_total")
QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total", "sglang:prompt_tokens_total")
# histograms of the server's own clock, whose sum and count grow with each answer
FIRST = ("vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds")
WHOLE = ("vllm:e2e_request_latency_seconds", "sglang:e2e_request_latency_seconds")
PREEMPTED = ("vllm:num_preemptions_total", "sglang:num_retracted_requests_total")
WANTED = {
    *RUNNING, *WAITING, *DRAFTS, *ACCEPTED, POSITIONS, LAST_LENGTH, *GENERATED, *PROMPT, *ENDED, *HITS, *QUERIES,
    *PREEMPTED, *(f"{name}_{part}" for name in (*FIRST, *WHOLE) for part in ("sum", "count")),
}  # fmt: skip

Scrape = Mapping[tuple[str, str], float]  # (name, draft position or "") -> value of the server as a whole


def read(text: str) -> Scrape:
    """The wanted values of one scrape; lines that cannot be read are passed over."""
    series: dict[tuple[str, str, str], float] = {}
    for line in text.splitlines():
        # nine lines of ten are not wanted, and this runs while answers are timed
        if line.partition("{")[0].partition(" ")[0] not in WANTED or not (m := LINE.match(line)):
            continue
        try:
            value = float(m["value"])
        except ValueError:
            continue
        labels = RANK.sub("", m["labels"] or "")
        position = POSITION.search(labels) if m["name"] == POSITIONS else None
        key = (m["name"], position[1] if position else "", labels.rstrip(","))
        if math.isfinite(value):
            series[key] = max(value, series.get(key, value))
    found: dict[tuple[str, str], list[float]] = {}
    for (name, place, _), value in series.items():
        found.setdefault((name, place), []).append(value)
    return {key: mean(v) if key[0] == LAST_LENGTH else sum(v) for key, v in found.items()}


def now(scrape: Scrape, names: tuple[str, ...]) -> float | None:
    """The value of the first of these names that is there."""
    return next((scrape[(n, "")] for n in names if (n, "") in scrape), None)


def present(scrape: Scrape) -> float | None:
    """How many requests are with the server, running or waiting; None when it does not say."""
    running = now(scrape, RUNNING)
    return None if running is None else running + (now(scrape, WAITING) or 0.0)


def grown(before: Scrape, after: Scrape, names: tuple[str, ...]) -> float | None:
    """How much a counter grew; None when it is not there or was reset."""
    for name in names:
        b = after.get((name, ""))
        if b is not None and before:  # a counter that was not there yet had not counted
            a = before.get((name, ""), 0.0)
            return b - a if b >= a else None
    return None


def server(before: Scrape, after: Scrape, looks: Sequence[Scrape], foreign: float | None) -> Server:
    """What the server's counters say of one round; `looks` are the scrapes in between."""
    output, drafts = grown(before, after, GENERATED), grown(before, after, DRAFTS)
    accepted = _accepted(before, after, output, drafts)
    length = 1 + accepted / drafts if drafts and accepted is not None else _last_length(after, looks)
    return Server(
        drafts=drafts, accepted=accepted, accept_length=length,
        per_position=_per_position(before, after, drafts) if drafts else [],
        output_tokens=output, prompt_tokens=grown(before, after, PROMPT),
        prefix_hits=grown(before, after, HITS), prefix_queries=grown(before, after, QUERIES),
        preemptions=grown(before, after, PREEMPTED), foreign_running_max=foreign,
        ttft_ms=_mean_ms(before, after, FIRST), e2e_ms=_mean_ms(before, after, WHOLE),
    )  # fmt: skip


def _mean_ms(before: Scrape, after: Scrape, names: tuple[str, ...]) -> float | None:
    """Mean of what a histogram of seconds took in."""
    took = grown(before, after, tuple(f"{n}_sum" for n in names))
    many = grown(before, after, tuple(f"{n}_count" for n in names))
    return 1000 * took / many if took is not None and many else None


def cached(found: Server) -> float:
    """Share of the prompt tokens that the prefix cache had already."""
    return found.prefix_hits / found.prefix_queries if found.prefix_hits and found.prefix_queries else 0.0


def _accepted(before: Scrape, after: Scrape, output: float | None, drafts: float | None) -> float | None:
    """Accepted drafts. SGLang counts verify steps only: each gives one token of its own, each prefill one more."""
    if (counted := grown(before, after, ACCEPTED)) is not None:
        return counted
    ended = grown(before, after, ENDED)
    if output is None or drafts is None or ended is None or (DRAFTS[1], "") not in after:
        return None
    return max(0.0, output - ended - drafts)


def _per_position(before: Scrape, after: Scrape, drafts: float) -> list[float]:
    by = {int(p): v - before.get((n, p), 0.0) for (n, p), v in after.items() if n == POSITIONS and p}
    rates = [by[p] / drafts for p in sorted(by)]
    return rates if all(r >= 0 for r in rates) else []


def _last_length(after: Scrape, looks: Sequence[Scrape]) -> float | None:
    """An older SGLang only shows its last interval: the mean of those that were seen."""
    seen = [s[(LAST_LENGTH, "")] for s in (*looks, after) if s.get((LAST_LENGTH, ""))]
    return mean(seen) if seen else None
