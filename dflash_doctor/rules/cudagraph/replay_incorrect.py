"""Graph replay computes something wrong: acceptance suffers with graphs on and is fine in eager mode.

## What it sees
Drafts are accepted less or never (or logits are NaN) while graphs are on, or in a stronger mode, and the same drafter
was accepted on a server start without them; everything else is equal.

## Why it costs you
Speculation gives nothing; the answers themselves may be wrong too.

## How to confirm
Start once with `--enforce-eager`: acceptance comes back. Then switch off only the drafter's graphs.

## What usually did it
Stale buffers in a captured graph: metadata of the attention backend or hidden states that are not copied before replay.

## When it is wrong
A drafter that is dead in eager mode too is wired wrongly. Without a start in eager mode to hold against, this is a
guess to check.
"""

from __future__ import annotations

from statistics import median

from dflash_doctor.model import Comparison, Evidence, Finding, Interval, Snapshot
from dflash_doctor.physics import TOKENS
from dflash_doctor.rules.drafting import NEVER, acceptance, drafting, fell, same_drafter, shown
from dflash_doctor.rules.graphs import ORDER, batches, sizes
from dflash_doctor.rules.seen import new, proof, proofs

ALIVE = 1.5  # tokens per step of drafts that are accepted


def check(c: Comparison) -> Finding | None:
    now = drafting(c.now)
    nan = new(c, "err.nan")
    stronger = [
        d for d in c.drift("cudagraph.mode") if d.was and d.now and _stronger(str(d.was.value), str(d.now.value))
    ]
    for s in (c.now, c.was):
        if s is not None and (padded := _dead_when_padded(s)):
            return padded
    if c.was is None:
        return None
    if not stronger:
        return _eager_was_the_test(c)
    dead = now.on and now.useless and (drafting(c.was).length or 1) > 1.3
    other = c.drift("engine.version", "model.*", "spec.*", "kv.dtype")
    lower = fell(c) and not other
    if not (nan or ((dead or lower) and same_drafter(c))):
        return None
    was = drafting(c.was)
    return Finding(
        cause="",
        summary=f"since the graph mode changed ({stronger[0].words()}) drafts keep {shown(now)}; "
        f"they kept {was.length or 1:.2f} tokens per step before",
        confidence=0.75 if dead or nan else 0.65,
        severity="critical" if dead or nan else "warning",
        evidence=(*acceptance(c.now), *proof(*stronger), *proofs(nan)),
        effects=("spec.acceptance_collapse", "spec.drafter_target_mismatch"),
        next_steps=("start once with --enforce-eager and compare acceptance", "then report it with both logs"),
        touches=(TOKENS,),
    )


def _dead_when_padded(s: Snapshot) -> Finding | None:
    """Drafts are accepted in batches of a captured size and never in those that are padded up to one."""
    captured = sizes(s)
    lengths = {n: _length(rows) for n, rows in batches(s).items() if any(r.accept_length for r in rows)}
    fitting = [n for n in lengths if n in captured and lengths[n] > ALIVE]
    padded = [n for n in lengths if n not in captured and captured and n < captured[-1] and lengths[n] <= NEVER]
    replayed = all(r.graph is not False for n in padded for r in batches(s)[n])
    if s.engine != "sglang" or len(fitting) < 2 or len(padded) < 2 or not replayed:
        return None
    if any(n not in captured and lengths[n] > ALIVE for n in lengths if n < captured[-1]):
        return None
    rows = [batches(s)[n][0] for n in (padded[0], fitting[-1])]
    return Finding(
        cause="",
        summary=f"drafts keep {lengths[fitting[-1]]:.2f} tokens in batches of a captured size "
        f"({', '.join(map(str, sorted(fitting)))}) and {lengths[padded[0]]:.2f} in padded ones "
        f"({', '.join(map(str, sorted(padded)))})",
        confidence=0.88,
        severity="critical",
        evidence=tuple(Evidence("server.log", r.text, r.line) for r in rows if r.text),
        effects=("spec.acceptance_collapse", "spec.drafter_target_mismatch"),
        next_steps=("capture every size, or run without padding, until it is fixed", "report it with the log"),
        touches=(TOKENS,),
        proven=True,
    )


def _length(rows: list[Interval]) -> float:
    return float(median(r.accept_length for r in rows if r.accept_length))


def _eager_was_the_test(c: Comparison) -> Finding | None:
    """The start before this one had graphs and dead drafts; this one is eager and its drafts are accepted."""
    if c.was is None or c.now.value("cudagraph.mode") != "none" or not same_drafter(c):
        return None
    now, was = drafting(c.now), drafting(c.was)
    if not (was.on and was.useless and (now.length or 1.0) > 1.3):
        return None
    return Finding(
        cause="",
        summary=f"in eager mode drafts keep {shown(now)}; "
        f"with graphs on, one start before, they kept {was.length or 1:.2f}",
        confidence=0.8,
        severity="critical",
        evidence=(*acceptance(c.now), *acceptance(c.was), *proof(*c.drift("cudagraph.mode"))),
        effects=("spec.acceptance_collapse", "spec.drafter_target_mismatch"),
        next_steps=("run the drafter or the server eagerly until it is fixed", "report it with both logs"),
        touches=(TOKENS,),
        proven=True,
    )


def _stronger(was: str, now: str) -> bool:
    return ORDER.get(was, 9) < ORDER.get(now, -1)
