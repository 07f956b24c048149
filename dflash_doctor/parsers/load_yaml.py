"""load.yaml: numbers that a person noted. Each number of a row becomes a sample under the conditions of its row.

    - {workload: chat, concurrency: 1, output_tok_s: 17.7, ttft_ms: 350}
    - {workload: chat, concurrency: 2, output_tok_s: 30.4}

A list of rows, one row alone, rows under a key, or rows under the names of their workloads; lists of values are several
runs. Names and amounts are read kindly (spellings.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import yaml

from dflash_doctor.model import Evidence, Facts, Gap, Sample, Unreadable
from dflash_doctor.parsers.documents import compose_yaml
from dflash_doctor.parsers.spellings import amount, condition_of, metric_of

READS: tuple[str, ...] = ("load.yaml",)

HOLDERS = ("rows", "results", "runs", "load", "numbers", "measurements", "samples")
MOST_RUNS = 10_000  # values of one list


@dataclass(frozen=True)
class Row:
    """One row and where it stands."""

    values: Mapping[str, Any]
    evidence: Evidence


def parse(text: str, source: str) -> Facts:
    """The samples of every row. Raises Unreadable when there is no row."""
    whole, node = compose_yaml(text, "noted numbers")
    lines = text.splitlines()
    found = list(_rows(whole, node, {}, lines, source))
    if not found:
        raise Unreadable("no row of numbers in it: expected `- {workload: chat, concurrency: 1, output_tok_s: 73.5}`")
    samples: list[Sample] = []
    gaps: list[Gap] = []
    for row in found:
        mine = [s for one in _unfolded(row) for s in _samples(one, gaps)]
        if not mine:
            gaps.append(Gap(f"{source}, line {row.evidence.line}", "this row holds no number that we compare"))
        samples += mine
    return Facts(samples=tuple(samples), gaps=tuple(dict.fromkeys(gaps)))


def rows(whole: Any, source: str, line: int | None = None) -> tuple[Sample, ...]:
    """Samples of rows that came from elsewhere (JSON), in the same words."""
    at = Evidence(source, "", line)
    listed = whole if isinstance(whole, list) else [whole]
    plain = [Row(r, Evidence(source, _shown(r), at.line)) for r in listed if isinstance(r, Mapping)]
    return tuple(s for row in plain for one in _unfolded(row) for s in _samples(one, []))


# -- finding the rows -------------------------------------------------------------------------------------------------


def _rows(
    whole: Any, node: yaml.Node | None, common: Mapping[str, Any], lines: list[str], source: str, depth: int = 0
) -> Iterator[Row]:
    """Rows, however they are wrapped; what stands beside a list of rows holds for all of them."""
    if depth > 3:
        return
    if isinstance(whole, list) and isinstance(node, yaml.SequenceNode):
        for item, inner in zip(whole, node.value, strict=False):
            if isinstance(item, Mapping):
                yield from _rows(item, inner, common, lines, source, depth + 1)
        return
    if not isinstance(whole, Mapping) or not isinstance(node, yaml.MappingNode):
        return
    nodes = {k.value: v for k, v in node.value if isinstance(k, yaml.ScalarNode)}
    nested = {k: v for k, v in whole.items() if isinstance(v, Mapping) or (isinstance(v, list) and _of_rows(v))}
    flat = {str(k): v for k, v in whole.items() if k not in nested}
    if any(metric_of(k) for k in flat) or (not nested and any(isinstance(v, (str, int, float)) for v in flat.values())):
        yield Row({**common, **flat}, Evidence(source, _text(node, lines), node.start_mark.line + 1))
        return
    for key, inside in nested.items():
        # a name that is none of ours is the workload's
        named = {} if str(key).lower() in HOLDERS else {"workload": str(key)}
        yield from _rows(inside, nodes.get(str(key)), {**common, **flat, **named}, lines, source, depth + 1)


def _of_rows(items: list[Any]) -> bool:
    return any(isinstance(i, Mapping) for i in items)


def _text(node: yaml.Node, lines: list[str]) -> str:
    """The row as written, on one line."""
    first, last = node.start_mark.line, node.end_mark.line
    last += 1 if node.end_mark.column else 0
    return " ".join(" ".join(lines[first : min(last, first + 30)]).split()).removeprefix("- ")[:300]


def _shown(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}: {v}" for k, v in row.items() if isinstance(v, (str, int, float)))[:300]


def _unfolded(row: Row) -> Iterator[Row]:
    """A list of concurrencies with lists of values as long is one row for each."""
    key = next((k for k in row.values if condition_of(k) == "concurrency"), None)
    points = row.values.get(key) if key else None
    if key is None or not isinstance(points, list):
        yield row
        return
    for i, point in enumerate(points[:MOST_RUNS]):
        one = {
            k: v[i] if isinstance(v, list) and len(v) == len(points) else v for k, v in row.values.items() if k != key
        }
        yield Row({**one, key: point}, row.evidence)


# -- one row ----------------------------------------------------------------------------------------------------------


def _samples(row: Row, gaps: list[Gap]) -> Iterator[Sample]:
    conditions = _conditions(row.values)
    workload, concurrency = conditions.pop("workload", None), conditions.pop("concurrency", None)
    boot, prompt = conditions.pop("boot", None), conditions.pop("prompt", None)
    run = conditions.pop("run", conditions.pop("round", None))
    workload = str(workload) if workload is not None else conditions.get("dataset")
    together = amount(concurrency, "running")
    for name, raw in row.values.items():
        named = metric_of(str(name))
        if named is None or raw is None:
            continue
        for value in raw[:MOST_RUNS] if isinstance(raw, list) else [raw]:
            read = amount(value, named.metric, named.scale)
            if read is None:
                where = f"{row.evidence.source}, line {row.evidence.line}"
                gaps.append(Gap(where, f"{str(name)[:40]} is no number: {_scalar(value)}"))
                continue
            beside = dict(read.beside) | ({"definition": named.statistic} if named.statistic else {})
            yield Sample(
                metric=named.metric,
                value=read.value,
                workload=workload,
                concurrency=together.value if together else None,
                prompt=None if prompt is None else str(prompt),
                boot=None if boot is None else str(boot),
                round=run if isinstance(run, int) and not isinstance(run, bool) else None,
                conditions={**conditions, **beside},
                evidence=row.evidence,
            )


def _conditions(values: Mapping[str, Any]) -> dict[str, Any]:
    """What was run: everything in a row that is no measured number."""
    found = {}
    for name, raw in values.items():
        if raw is None or metric_of(str(name)) is not None:
            continue
        if isinstance(raw, date):
            raw = raw.isoformat()
        if isinstance(raw, (str, int, float)):
            found[condition_of(str(name))] = _number_if_one(raw)
    return found


def _number_if_one(raw: str | int | float) -> Any:
    """`1024` written in quotes is a number of tokens all the same."""
    if isinstance(raw, str) and raw.strip().isdigit() and len(raw.strip()) < 12:
        return int(raw)
    return raw.strip()[:300] if isinstance(raw, str) else raw


def _scalar(value: Any) -> str:
    return str(value)[:60] if isinstance(value, (str, int, float, bool)) else type(value).__name__
