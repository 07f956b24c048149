"""The tables that serving benchmarks print: a head between rules, then labels and values.

    ============ Serving Benchmark Result ============        vllm bench serve, sglang.bench_serving
    ====== Offline Throughput Benchmark Result =======        sglang.bench_offline_throughput
    -----Time per Output Token (excl. 1st token)------        a section: its values carry the name themselves

Labels differ by a word between tools and years ("Maximum request concurrency", "Max reqeuest concurrency"): they are
told apart by what they must contain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dflash_doctor.model import Facts, Gap, Sample
from dflash_doctor.parsers.results import PERCENTILES, UNNAMED, Result, known, number

# ============ Serving Benchmark Result ============
HEAD = re.compile(r"={3,60} {0,40}(?P<what>[A-Z][\w ]{2,40}Benchmark Result) {0,40}={3,60}")
# Mean TTFT (ms): …, Median E2E Latency (ms): …, P99 ITL (ms): …, P99.9 TPOT (ms): …
TIME = re.compile(
    r"(?P<stat>Mean|Median|Std|Max|P\d{1,2}(?:\.\d{1,2})?) (?P<name>TTFT|TPOT|ITL|E2EL|E2E Latency) \(ms\)"
)
METRIC_OF = {"TTFT": "ttft_ms", "TPOT": "tpot_ms", "ITL": "itl_ms", "E2EL": "e2e_ms", "E2E Latency": "e2e_ms"}
# how a label begins -> metric, and the factor to its unit
RATES = (
    ("request throughput", "req_s", 1.0),
    ("output token throughput", "output_tok_s", 1.0),
    ("last generation throughput", "output_tok_s", 1.0),
    ("total token throughput", "total_tok_s", 1.0),
    ("total throughput", "total_tok_s", 1.0),
    ("benchmark duration", "duration_s", 1.0),
    ("acceptance length", "accept_length", 1.0),
    ("accept length", "accept_length", 1.0),
    ("acceptance rate", "accept_rate", 0.01),
    ("position 0", "accept_first", 0.01),  # of "Per-position acceptance (%)"
)


@dataclass
class Table:
    """One table while it is read."""

    what: str
    line: int
    rows: dict[str, tuple[str, int, str]] = field(default_factory=dict)  # label -> value, line number, line

    def value(self, *words: str) -> str | None:
        """The value of the first label that has all these words."""
        return next((v for label, (v, _, _) in self.rows.items() if all(w in label.lower() for w in words)), None)


def read(lines: Sequence[tuple[int, str]], told: Mapping[str, str], source: str) -> Facts:
    """The samples of every table."""
    samples: list[Sample] = []
    gaps: list[Gap] = []
    for table in _tables(lines):
        result = _result(table, told, source)
        samples += _samples(table, result)
        gaps += result.gap_for(table.value("failed requests"), table.value("successful requests"))
    return Facts(samples=tuple(samples), gaps=tuple(gaps))


def _tables(lines: Sequence[tuple[int, str]]) -> Iterator[Table]:
    table: Table | None = None
    for n, line in lines:
        head = HEAD.search(line) if "Benchmark Result" in line else None
        if head:
            if table is not None:
                yield table
            table = Table(head["what"], n)
        elif table is not None and line and not line.strip("= "):
            yield table  # the closing rule
            table = None
        elif table is not None:
            label, colon, value = line.strip().partition(":")
            if colon and value.strip() and len(label) < 60:
                table.rows.setdefault(label, (value.strip()[:100], n, line.strip()))
    if table is not None:  # cut off: what is there was printed
        yield table


def _result(table: Table, told: Mapping[str, str], source: str) -> Result:
    offline = "Offline" in table.what
    marks = (table.value("backend"), table.value("e2e latency"), table.value("max reqeuest"), table.value("input text"))
    sglang = any(m is not None for m in marks)
    tool = "sglang.bench_offline_throughput" if offline else "sglang.bench_serving" if sglang else "vllm bench serve"
    data = told.get("dataset_name") or told.get("dataset")
    # "Maximum request concurrency: 8"; "Peak concurrent requests" and SGLang's "Concurrency" are what came of it
    at_once = number(table.value("max", "concurrency")) or number(told.get("max_concurrency"))
    asked = known(
        dataset=data, request_rate=_plain(table.value("request rate") or told.get("request_rate")),
        num_prompts=_plain(told.get("num_prompts")), seed=_plain(told.get("seed")), model=told.get("model"),
        temperature=_plain(told.get("temperature")), failed=number(table.value("failed requests")) or None,
        backend=table.value("backend") or told.get("backend"),
    )  # fmt: skip
    if data and data.startswith("random"):  # elsewhere these lengths are defaults that nobody used
        asked |= known(
            input_tokens=_plain(told.get("random_input_len")), output_tokens=_plain(told.get("random_output_len"))
        )
    return Result(tool, source, table.line, data or UNNAMED, at_once, {**asked, **_lengths(table)})


def _plain(raw: str | None) -> Any:
    value = number(raw)
    return raw if value is None else value


def _lengths(table: Table) -> dict[str, float]:
    """Mean tokens in and out per request: no condition, they wander from run to run."""
    done = number(table.value("successful requests"))
    totals = {"mean_input_tokens": "total input tokens", "mean_output_tokens": "total generated tokens"}
    if not done:
        return {}
    return {k: round(v / done, 1) for k, label in totals.items() if (v := number(table.value(label))) is not None}


def _samples(table: Table, result: Result) -> Iterator[Sample]:
    times: dict[str, dict[str, tuple[float, str, int]]] = {}
    for label, (raw, n, line) in table.rows.items():
        value = number(raw.split()[0].replace(",", ""))
        if value is None:
            continue
        found = TIME.fullmatch(label)
        if found:
            times.setdefault(METRIC_OF[found["name"]], {})[found["stat"].lower()] = (value, line, n)
            continue
        for begins, metric, factor in RATES:
            if label.strip().lower().startswith(begins) and (metric != "accept_length" or value >= 1):
                yield from replace(result, line=n).sample(metric, value * factor, said=line)
                break
    for metric, stats in times.items():
        beside = {p: stats[p][0] for p in PERCENTILES if p in stats}
        for stat, more in (("mean", beside), ("median", {})):
            if stat in stats:
                value, line, n = stats[stat]
                yield from replace(result, line=n).sample(metric, value, stat, said=line, **more)
