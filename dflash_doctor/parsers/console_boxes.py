"""The box tables that GenAI-Perf and AIPerf print: a row for each statistic, a column for each of its figures.

                              NVIDIA GenAI-Perf | LLM Metrics
    ┃                         Statistic ┃      avg ┃      min ┃ …
    │          Time To First Token (ms) │  1120.40 │   210.01 │ …
    │ Output Token Throughput (per sec) │   561.20 │      N/A │ …

AIPerf 0.13 writes `NVIDIA AIPerf | LLM Metrics` and `Metric` for `Statistic`. The rows are those of their JSON, so they
are read as that (aiperf.py). Rules may be of `|` where a terminal had no box letters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dflash_doctor.model import Facts
from dflash_doctor.parsers import aiperf
from dflash_doctor.parsers.results import number

BORDER = re.compile(r"[│┃|║]")
HEADS = ("statistic", "metric")
UNIT = re.compile(r"\((?P<unit>[^)]{1,30})\)\s*$")
CONCURRENCY = re.compile(r"--concurrency[= ](?P<n>\d{1,6})")
# how the JSON names what a row's title says
NAMES = {
    "time to first token": "time_to_first_token",
    "inter token latency": "inter_token_latency",
    "inter chunk latency": "inter_chunk_latency",
    "request latency": "request_latency",
    "output sequence length": "output_sequence_length",
    "input sequence length": "input_sequence_length",
    "output token throughput": "output_token_throughput",
    "output token throughput per user": "output_token_throughput_per_user",
    "total token throughput": "total_token_throughput",
    "request throughput": "request_throughput",
    "request count": "request_count",
    "error request count": "error_request_count",
}


def read(lines: Sequence[tuple[int, str]], told: Mapping[str, str], source: str) -> Facts:
    """The samples of the first table; of several the last is the profiled run, after its warm-up."""
    doc: dict[str, Any] = {}
    begin, columns = 1, []
    for n, line in lines:
        cells = [c.strip() for c in BORDER.split(line)[1:-1]]
        if len(cells) < 2:
            continue
        if cells[0].lower() in HEADS and "avg" in cells:
            doc, begin, columns = {}, n, [c.lower() for c in cells[1:]]
        elif columns and (row := _row(cells, columns)):
            doc.update([row])
    if not doc:
        return Facts()
    asked = told.get("concurrency") or _concurrency(lines)
    if asked:
        doc["input_config"] = {"concurrency": number(asked)}
    return aiperf.read(doc, source, begin) or Facts()


def _row(cells: Sequence[str], columns: Sequence[str]) -> tuple[str, dict[str, Any]] | None:
    unit = UNIT.search(cells[0])
    name = NAMES.get(UNIT.sub("", cells[0]).strip().lower())
    if name is None:
        return None
    figures = {
        c: v for c, text in zip(columns, cells[1:], strict=False) if (v := number(text.replace(",", ""))) is not None
    }
    return name, {"unit": unit["unit"] if unit else "", **figures}


def _concurrency(lines: Sequence[tuple[int, str]]) -> str | None:
    return next((m["n"] for _, line in lines if (m := CONCURRENCY.search(line))), None)
