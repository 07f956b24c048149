"""The HTTP front end or its process count is the bottleneck.

## What it sees
The API server or tokenizer process uses a whole core while the engine's does not, few requests run and none wait, and
the GPU idles; or streaming falls behind; or the number of front-end processes is lower than in the baseline.

## Why it costs you
Requests are parsed, templated, tokenised and streamed by one Python process; past its one core nothing gets through,
however fast the GPU is.

## How to confirm
`top -H` on the API server's process at 100 % with the engine's below; two API servers give nearly twice the rate.

## What usually did it
Short requests at a high rate (embeddings, classification), long prompts as text, logging of every request, one front
end where there were several.

## When it is wrong
When the engine's process is the one at 100 % it is `host.cpu_bound`. When requests wait in the engine's queue the front
end delivers enough.
"""

from __future__ import annotations

from collections.abc import Mapping

from dflash_doctor.model import Comparison, Evidence, Finding, Snapshot
from dflash_doctor.physics import PREFILL, QUEUE, STEP
from dflash_doctor.rules.cards import loaded, numbers, reading_lines
from dflash_doctor.rules.seen import new_about, proof, proofs, put_back

FRONT = ("api", "server", "frontend", "http", "tokenizer", "detokenizer")
WHOLE = 90.0  # per cent of one core


def check(c: Comparison) -> Finding | None:
    front, engine = _busiest(c.now)
    busy = front is not None and front >= WHOLE and (engine is None or engine < 0.8 * front)
    fewer = [d for d in c.drift("host.api_servers") if d.was and d.now and _less(d.now.value, d.was.value)]
    said = [
        s
        for s in new_about(c, "api_server_count", "logging_overhead", "host_bound")
        if s.level == "WARNING" and s.id in ("sched.streaming_backlog", "api.servers", "api.request_body_logging")
    ]
    waiting = max((i.waiting or 0 for i in c.now.intervals), default=0)
    idle = [v for v in numbers(loaded(c.now), "utilization.gpu").values() if v < 60]
    if not (busy and (idle or fewer)) and not fewer and not said:
        return None
    confidence = (
        0.35 + 0.3 * busy + 0.15 * bool(idle and busy) + 0.2 * bool(fewer) + 0.15 * bool(said) - 0.2 * (waiting > 0)
    )
    words = (
        f"the front end uses a whole core ({front:.0f} %) while the engine does not"
        if busy
        else fewer[0].words()
        if fewer
        else "streaming falls behind the engine"
    )
    return Finding(
        cause="",
        summary=words + (f"; the GPU is {min(idle):.0f} % busy" if idle else ""),
        confidence=max(0.1, min(confidence, 0.9)),
        severity="warning",
        evidence=(*_lines(c.now), *reading_lines(loaded(c.now), "utilization.gpu"), *proofs(said[:1]), *proof(*fewer)),
        next_steps=(
            *(put_back(d) for d in fewer),
            "run several API servers (--api-server-count, --tokenizer-worker-num), or send token ids",
        ),
        touches=(QUEUE, PREFILL, STEP),
    )


def _busiest(s: Snapshot) -> tuple[float | None, float | None]:
    """CPU per cent of the busiest front-end process and of the busiest engine process."""
    front: list[float] = []
    engine: list[float] = []
    rows = s.host.get("processes")
    for p in rows if isinstance(rows, (list, tuple)) else ():
        if not isinstance(p, Mapping) or not isinstance(p.get("cpu_percent"), (int, float)):
            continue
        role = f"{p.get('role', '')} {p.get('name', '')}".lower()
        (front if any(w in str(p.get("role", role)).lower() for w in FRONT) else engine).append(float(p["cpu_percent"]))
    return (max(front) if front else None), (max(engine) if engine else None)


def _less(now: object, was: object) -> bool:
    return isinstance(now, (int, float)) and isinstance(was, (int, float)) and now < was


def _lines(s: Snapshot) -> tuple[Evidence, ...]:
    rows = s.host.get("processes")
    return tuple(
        Evidence("host.json", f"process {p.get('role') or p.get('name')}: {p['cpu_percent']} % of a core")
        for p in (rows if isinstance(rows, (list, tuple)) else ())
        if isinstance(p, Mapping) and p.get("cpu_percent") is not None
    )[:3]
