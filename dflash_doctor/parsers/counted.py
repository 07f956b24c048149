"""One stretch of counters -> Samples: acceptance, cache hits, preemptions, times from the server's own histograms.

Means and quantiles are of the stretch, not of a request. What traffic there was nobody says here, so the concurrency
stays unknown; SGLang's gauges of its last interval carry the number of requests that ran in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dflash_doctor.model import Evidence, Sample
from dflash_doctor.parsers.scrapes import Reading, table
from dflash_doctor.parsers.stretches import Stretch

# not the whole request's time: that is how long the answers were
TIMES = (("ttft", "ttft_ms"), ("tpot", "tpot_ms"), ("itl", "itl_ms"))
QUANTILES = (0.5, 0.9, 0.99)
SUMMED = ("counters", "histogram")  # the rest speaks of its moment


def samples(engine: str, s: Stretch, source: str) -> tuple[Sample, ...]:
    """Everything one stretch tells."""
    view = View(engine, s, source)
    found = [*_gauges(view), *_cache(view), *_preemptions(view)]
    found += _vllm_acceptance(view) if engine == "vllm" else _sglang_acceptance(view)
    found += [sample for quantity, metric in TIMES for sample in _times(view, quantity, metric)]
    return tuple(found)


class View:
    """A stretch asked in quantities instead of names."""

    def __init__(self, engine: str, s: Stretch, source: str) -> None:
        self.engine, self.s, self.source = engine, s, source
        self._rows = table()[engine]

    def name(self, quantity: str) -> str | None:
        """The spelling that this server uses; None when it has none."""
        return next((n for n in self._rows.get(quantity, {}).get("names", ()) if n in self.s.names), None)

    def base(self, quantity: str) -> str | None:
        """The same for a histogram."""
        return next((n for n in self._rows[quantity]["names"] if f"{n}_count" in self.s.names), None)

    def growth(self, quantity: str, **labels: str) -> float | None:
        name = self.name(quantity)
        return None if name is None else self.s.growth(name, **labels)

    def gauge(self, quantity: str) -> list[tuple[float, Reading]]:
        name = self.name(quantity)
        return [] if name is None else self.s.gauge(name)

    def sample(self, metric: str, value: float, quantity: str, what: str = "counters", **more: Any) -> Sample:
        """One sample, with the line its quantity stands in and where such figures come from."""
        name = self.name(quantity) or f"{self.base(quantity)}_sum"
        line = self.s.line(name)
        where = None if line is None else Evidence(self.source, line.text[:400], line.line)
        concurrency = more.pop("concurrency", None)
        origin = f"server {what} since start" if self.s.whole and what in SUMMED else f"server {what}"
        conditions = {"from": origin, **more}
        if self.s.seconds is not None:
            conditions["seconds"] = round(self.s.seconds, 3)
        return Sample(metric, value, concurrency=concurrency, conditions=conditions, evidence=where)


def _gauges(v: View) -> Iterator[Sample]:
    """What the scrape at the end of the stretch saw: requests and the fullest KV cache over the engines."""
    for quantity in ("running", "waiting"):
        seen = v.gauge(quantity)
        if seen:
            yield v.sample(quantity, sum(x for x, _ in seen), quantity, "gauge")
    usage = [x for x, _ in v.gauge("kv_usage")]
    if usage:
        yield v.sample("kv_usage", max(usage), "kv_usage", "gauge")


def _preemptions(v: View) -> Iterator[Sample]:
    grew = v.growth("preemptions")
    if grew is not None:
        yield v.sample("preemptions", grew, "preemptions")


def _cache(v: View) -> Iterator[Sample]:
    """Share of prompt tokens that were found in the prefix cache."""
    asked, found = v.growth("cache_asked"), v.growth("cache_found")
    if asked and found is not None:
        yield v.sample("prefix_hit_rate", found / asked, "cache_found", asked=asked)
    computed, hit = v.growth("realtime", mode="prefill_compute"), v.growth("realtime", mode="prefill_cache") or 0.0
    if computed is not None and computed + hit > 0:
        yield v.sample("prefix_hit_rate", hit / (computed + hit), "realtime", asked=computed + hit)
    elif (prompt := v.growth("prompt")) and (cached := v.growth("cached")) is not None and v.name("realtime") is None:
        yield v.sample("prefix_hit_rate", min(cached / prompt, 1.0), "cached", asked=prompt)


def _vllm_acceptance(v: View) -> Iterator[Sample]:
    drafts, drafted, accepted = v.growth("drafts"), v.growth("drafted"), v.growth("accepted")
    if not drafts or accepted is None:
        return
    curve = _curve(v, drafts)
    more: dict[str, Any] = {"drafts": drafts} | ({"per_position": curve} if curve else {})
    yield v.sample("accept_length", 1 + accepted / drafts, "accepted", **more)
    if drafted:
        yield v.sample("accept_rate", accepted / drafted, "accepted", depth=round(drafted / drafts, 2))
    if curve:
        yield v.sample("accept_first", curve[0], "accepted_at")


def _curve(v: View, drafts: float) -> list[float]:
    """Probability that positions 0..i are all accepted, by position."""
    name = v.name("accepted_at")
    series = v.s.names.get(name, ()) if name else ()
    places = {int(p): p for s in series if (p := dict(s[1]).get("position", "")).isdigit() and len(p) < 4}
    grown = [v.growth("accepted_at", position=places[i]) for i in sorted(places)]
    return [] if None in grown else [round(g / drafts, 4) for g in grown if g is not None]


def _sglang_acceptance(v: View) -> Iterator[Sample]:
    """From verify steps where they are counted (they move when a request ends); else the gauge of the last interval."""
    generated, verified, ended = v.growth("generated"), v.growth("verified"), v.growth("finished") or 0.0
    depth = draft_depth(v.s)
    if verified and generated and generated > ended:
        # the first token of a request comes from its prefill, not from a verify step
        length = (generated - ended) / verified
        yield v.sample("accept_length", length, "verified", drafts=verified)
        if depth and length >= 1:
            yield v.sample("accept_rate", min((length - 1) / depth, 1.0), "verified", depth=depth)
        return
    running = [x for x, _ in v.gauge("running")]
    lengths = [x for x, _ in v.gauge("last_length") if x > 0]  # 0: nothing was drafted yet
    if lengths:
        paired = len(running) == len(lengths) and sum(running) > 0
        busy = running if paired else [1.0] * len(lengths)
        mean = sum(a * r for a, r in zip(lengths, busy, strict=True)) / sum(busy)
        yield v.sample("accept_length", mean, "last_length", "last interval", concurrency=sum(running) or None)
    speeds = [x for x, _ in v.gauge("last_tok_s")]
    if sum(speeds) > 0 and sum(running) > 0:
        yield v.sample("output_tok_s", sum(speeds), "last_tok_s", "last interval", concurrency=sum(running))


def draft_depth(s: Stretch) -> int | None:
    """Tokens that SGLang drafts per step, the bonus not counted; a tree counts by its depth. 0 until it drafted."""
    steps, tokens = (
        max((x for n in table()["sglang"][q]["names"] for x, _ in s.gauge(n)), default=0.0)
        for q in ("draft_steps", "draft_tokens")
    )
    return int(min(steps, tokens - 1)) if 0 < steps < 1e6 and 1 < tokens < 1e6 else None


def _times(v: View, quantity: str, metric: str) -> Iterator[Sample]:
    """Mean of a histogram's growth in milliseconds, with quantiles beside it."""
    base = v.base(quantity)
    if base is None:
        return
    count, total = v.s.growth(f"{base}_count"), v.s.growth(f"{base}_sum")
    if not count or total is None or total < 0:
        return
    more: dict[str, Any] = {"count": count}
    if quantity == "itl":
        more["definition"] = _gap(v)
    quantiles = {f"p{q * 100:g}": ms for q in QUANTILES if (ms := _quantile(v.s, base, q)) is not None}
    yield v.sample(metric, 1000 * total / count, quantity, "histogram", **more, **quantiles)


def _gap(v: View) -> str:
    """What one observation between tokens is: engines differ, and so do drafting and not drafting."""
    if v.engine == "sglang":
        return "a chunk's gap spread over its tokens"
    return "gap between chunks of drafted tokens" if v.name("drafts") else "gap between tokens"


def _quantile(s: Stretch, base: str, q: float) -> float | None:
    """As Prometheus computes it: linear within the bucket; None beyond the last one, where nobody knows."""
    grown: dict[float, float] = {}
    for series in s.names.get(f"{base}_bucket", ()):
        try:
            bound = float(dict(series[1]).get("le", ""))
        except ValueError:
            return None
        grown[bound] = grown.get(bound, 0.0) + s.grown.get(series, 0.0)
    edges = sorted(grown)
    if not edges or grown[edges[-1]] <= 0:
        return None
    wanted, below, low = q * grown[edges[-1]], 0.0, 0.0
    for edge in edges:
        if grown[edge] >= wanted:
            if edge == float("inf"):
                return None
            share = (wanted - below) / (grown[edge] - below) if grown[edge] > below else 1.0
            return round(1000 * (low + (edge - low) * share), 3)
        below, low = grown[edge], edge
    return None
