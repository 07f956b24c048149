"""The server errors, restarts, hangs or dies; speed is not the question.

## What it sees
A start that ends in an error, a process that died without being asked to, requests that fail, several starts in a row
in one log.

## Why it costs you
Nobody is served; behind a load balancer the survivors carry the load and look slow.

## How to confirm
Read the first error of the last start: later ones are echoes of it in other processes.

## What usually did it
Out of memory, a library that does not fit, a drafter of the wrong shape, an unsupported combination of options, a GPU
that fell off the bus.

## When it is wrong
Errors that follow a requested shutdown are noise. A few rejected requests (too long, cancelled) are the clients'.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding, Signal
from dflash_doctor.rules.seen import proofs

ECHOES = ("err.engine_dead", "err.scheduler")  # other processes telling that one died
MANY_STARTS = 3


def check(c: Comparison) -> Finding | None:
    errors = [s for s in c.now.signals if s.level in ("ERROR", "CRITICAL") and not s.id.startswith("kernel.")]
    restarts = sum(1 for e in c.now.earlier if e.served is False)
    if c.now.served is not False and restarts < MANY_STARTS:
        return None
    first = _first(errors)
    what = "the server did not come up" if not c.now.intervals and c.now.served is False else "the server died"
    if c.now.served is not False:
        what = f"the server died {restarts} times before this start"
    said = f": {_short(first.evidence.text)}" if first else ""
    return Finding(
        cause="",
        summary=f"{what}{said}",
        confidence=0.9,
        severity="critical",
        evidence=proofs(_telling(errors, first)),
        next_steps=("read the first error of the last start; the ones after it are echoes",),
    )


def _first(errors: list[Signal]) -> Signal | None:
    """The error that explains most: an exception before the lines that only report a dead process."""
    telling = [s for s in errors if s.id not in ECHOES and ("Error" in s.evidence.text or "error" in s.evidence.text)]
    return next(iter(telling or errors), None)


def _telling(errors: list[Signal], first: Signal | None) -> list[Signal]:
    rest = [s for s in errors if s is not first]
    return [*([first] if first else []), *rest][:5]


def _short(text: str) -> str:
    """The message without the prefix that the logger put before it."""
    body = text.split("] ", 1)[-1].strip()
    return body if len(body) <= 160 else body[:157] + "…"
