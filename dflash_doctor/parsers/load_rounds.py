"""Our own load rounds (formats/load.py) -> Samples: each request by the name of its prompt, each round as a whole.

A request's numbers are paired with the same prompt's of another run; a round's are one value. At one request at a time
the gap between chunks is the step time, unless chunks came in bunches.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from dflash_doctor.formats.load import LoadFile, Request, Round
from dflash_doctor.model import Evidence, Facts, Gap, Sample, Unreadable
from dflash_doctor.parsers.load_doubts import bunched, doubts

SCHEMA = "dflash-doctor/load/"
COLD, AGAIN = "cold", "-again"  # the workload of one long prompt, and the end of its name the second time


def read(doc: Mapping[str, Any], source: str) -> Facts | None:
    """The samples of one file; None when it is not ours. Raises Unreadable when it is, and broken."""
    if not str(doc.get("schema", "")).startswith(SCHEMA):
        return None
    try:
        load = LoadFile.model_validate(doc)
    except ValidationError as e:
        first = e.errors()[0]
        place = ".".join(str(p) for p in first["loc"])
        raise Unreadable(f"load rounds that are not of the form {SCHEMA}1: {place}: {first['msg']}") from e
    samples = [
        s
        for n, r in enumerate(load.rounds)
        for left_out in [{m for d in doubts(r) for m in d.metrics}]
        for s in _round(load, n, r, source)
        if s.metric not in left_out
    ]
    host: dict[str, Any] = {
        "load_client": load.client.model_dump(exclude_none=True),
        "load_started_at": load.started_at,
    }
    if load.notes:
        host["load_notes"] = list(load.notes)
    return Facts(samples=tuple(samples), host=host, gaps=tuple(_gaps(load, source)))


def _round(load: LoadFile, n: int, r: Round, source: str) -> Iterator[Sample]:
    asked = {
        "api": load.api, "temperature": load.temperature, "version": r.version, "max_tokens": r.max_tokens,
        "preset": load.preset,
    }  # fmt: skip
    failed = sum(q.status == "failed" for q in r.requests)
    if failed:
        asked["failed"] = failed
    for q in r.requests:
        if q.status == "ok":
            yield from _request(q, n, r, asked, source)
    if not r.again:  # a few prompts once more, or a pass that was cut when it was decided
        yield from _whole(n, r, asked, source)


def _request(q: Request, n: int, r: Round, asked: Mapping[str, Any], source: str) -> Iterator[Sample]:
    values = {
        "output_tok_s": 1000 / q.tpot_ms if q.tpot_ms else None,
        "prefill_tok_s": _prefill(q) if r.workload == COLD else None,
        "tpot_ms": q.tpot_ms,
        "ttft_ms": q.ttft_ms,
        "e2e_ms": q.e2e_ms,
        # the first chunk is the prefill's and carries one token, whatever a step gives
        "tokens_per_chunk": (q.output_tokens - 1) / (q.chunks - 1) if q.output_tokens and q.chunks > 1 else None,
        "step_time_ms": q.chunk_gap_ms if r.concurrency == 1 and not bunched(q) else None,
    }
    measured = {k: v for k, v in values.items() if v is not None and 0 < v < math.inf}
    told = ", ".join(f"{k} {v:.6g}" for k, v in measured.items())
    where = Evidence(source, f"{r.workload} at {r.concurrency}, prompt {q.prompt}: {told}"[:400])
    for metric, value in measured.items():
        yield Sample(
            metric, value, workload=r.workload, concurrency=float(r.concurrency), prompt=q.prompt, round=n,
            conditions=asked, evidence=where,
        )  # fmt: skip


def _prefill(q: Request) -> float | None:
    """How fast a long prompt was read that no cache had; the same again was read before."""
    if q.prompt.endswith(AGAIN) or not q.ttft_ms or not q.input_tokens:
        return None
    return 1000 * q.input_tokens / q.ttft_ms


def _whole(n: int, r: Round, asked: Mapping[str, Any], source: str) -> Iterator[Sample]:
    done = [q for q in r.requests if q.status == "ok"]
    tokens = sum(q.output_tokens or 0 for q in done)
    seconds = r.wall_ms / 1000
    values: list[tuple[str, float, dict[str, Any]]] = []
    # the tokens of requests that were broken off are not known, their time is in the round's
    if tokens and seconds > 0 and not any(q.status == "cancelled" for q in r.requests):
        values += [("output_tok_s", tokens / seconds, {}), ("req_s", len(done) / seconds, {})]
    values += _server(r)
    for metric, value, more in values:
        if not 0 <= value < math.inf:
            continue
        told = f"{r.workload} at {r.concurrency}: {metric} {value:.6g} over the round"
        yield Sample(
            metric, value, workload=r.workload, concurrency=float(r.concurrency), round=n,
            conditions={**asked, **more}, evidence=Evidence(source, told),
        )  # fmt: skip


def _server(r: Round) -> Iterator[tuple[str, float, dict[str, Any]]]:
    """What the server counted during the round."""
    s, more = r.server, {"from": "server counters"}
    if s is None:
        return
    if s.accept_length is not None:
        yield "accept_length", s.accept_length, {**more, "per_position": list(s.per_position), "drafts": s.drafts}
    if s.per_position:
        yield "accept_first", s.per_position[0], more
        # each draft proposes as many tokens as there are positions
        yield "accept_rate", sum(s.per_position) / len(s.per_position), more
    if s.prefix_queries and s.prefix_hits is not None:
        yield "prefix_hit_rate", s.prefix_hits / s.prefix_queries, more
    if s.preemptions is not None:
        yield "preemptions", s.preemptions, more


def _gaps(load: LoadFile, source: str) -> Iterator[Gap]:
    if load.client.doubt is not None:
        yield Gap(f"{source}: client", load.client.doubt)
    if load.partial:
        why = "; ".join(load.notes) or "a cap, Ctrl-C or foreign requests"
        yield Gap(source, f"the load was cut short ({why}): what is here was measured, the rest was not")
    if load.drift is not None and load.drift.found:
        why = f"the step time moved by {load.drift.change:+.1%} from the beginning to the end ({load.drift.prompts} "
        why += (
            "prompts run twice): the server was not the same throughout, and its numbers are less sure than they look"
        )
        yield Gap(f"{source}: drift", why)
    if load.warmup is not None and not load.warmup.settled:
        yield Gap(source, f"the server had not settled after {load.warmup.requests} warm-up requests")
    for r in load.rounds:
        for doubt in doubts(r):
            yield Gap(f"{source}: {doubt.what} of {r.workload} at {r.concurrency}", doubt.why)
        bad = [q for q in r.requests if q.status != "ok"]
        if bad:
            reasons = Counter(q.error or q.status for q in bad).most_common(3)
            words = ", ".join(f"{why} ({n})" if n > 1 else why for why, n in reasons)
            what = f"{source}: {r.workload} at {r.concurrency}"
            yield Gap(what, f"{len(bad)} of {len(r.requests)} requests did not end well: {words}")
