"""The few server counters that the load rounds need, from `/metrics` text of either engine."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dflash_doctor.formats.load import Server

LINE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>[^ ]+)")
RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs")
WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs")
DRAFTS = "vllm:spec_decode_num_drafts_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
POSITIONS = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
GENERATED = ("vllm:generation_tokens_total", "sglang:generation_tokens_total")
PROMPT = ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total")
HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total", "sglang:cached_tokens_total")
QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total", "sglang:prompt_tokens_total")
PREEMPTED = ("vllm:num_preemptions_total", "sglang:num_retracted_requests_total")
ACCEPT_LENGTH = "sglang:spec_accept_length"  # a gauge: the last interval's mean, bonus counted
WANTED = {
    *RUNNING, *WAITING, DRAFTS, ACCEPTED, POSITIONS, *GENERATED, *PROMPT, *HITS, *QUERIES, *PREEMPTED, ACCEPT_LENGTH,
}  # fmt: skip

Scrape = Mapping[tuple[str, str], float]  # (name, draft position or "") -> value, summed over the other labels


def read(text: str) -> Scrape:
    """The wanted values of one scrape; lines that cannot be read are passed over."""
    found: dict[tuple[str, str], float] = {}
    for line in text.splitlines():
        m = LINE.match(line)
        if not m or m["name"] not in WANTED:
            continue
        position = re.search(r'position="(\d+)"', m["labels"] or "")
        key = (m["name"], position[1] if position and m["name"] == POSITIONS else "")
        try:
            found[key] = found.get(key, 0.0) + float(m["value"])
        except ValueError:
            continue
    return found


def now(scrape: Scrape, names: tuple[str, ...]) -> float | None:
    """The value of the first of these names that is there."""
    return next((scrape[(n, "")] for n in names if (n, "") in scrape), None)


def grown(before: Scrape, after: Scrape, names: tuple[str, ...]) -> float | None:
    """How much a counter grew; None when it is not there or was reset."""
    for name in names:
        a, b = before.get((name, "")), after.get((name, ""))
        if a is not None and b is not None:
            return b - a if b >= a else None
    return None


def server(before: Scrape, after: Scrape, foreign: float | None) -> Server:
    """What the server's counters say of one round."""
    drafts, accepted = grown(before, after, (DRAFTS,)), grown(before, after, (ACCEPTED,))
    length = 1 + accepted / drafts if drafts and accepted is not None else after.get((ACCEPT_LENGTH, "")) or None
    positions = sorted((int(p), v - before.get((n, p), 0.0)) for (n, p), v in after.items() if n == POSITIONS and p)
    return Server(
        drafts=drafts, accepted=accepted, accept_length=length,
        per_position=[v / drafts for _, v in positions] if drafts else [],
        output_tokens=grown(before, after, GENERATED), prompt_tokens=grown(before, after, PROMPT),
        prefix_hits=grown(before, after, HITS), prefix_queries=grown(before, after, QUERIES),
        preemptions=grown(before, after, PREEMPTED), foreign_running_max=foreign,
    )  # fmt: skip
