"""The measurement is wrong: no regression is shown.

## What it sees
The server's own counters contradict the client: as fast as before per token; more requests running than the client
sent; prompts that were cached on one side only; answers cut short; a client that was the bottleneck; windows that are
mostly idle; random or looping text that flatters acceptance.

## Why it costs you
It does not; a restart for nothing would.

## How to confirm
Measure again on an idle server with full-length answers, cold prompts and the same client; hold the client's numbers
against `/metrics` before and after.

## What usually did it
A shared endpoint; a warm prefix cache from an earlier cell of a sweep; `max_tokens` too small; one warm-up; chunks
counted as tokens.

## When it is wrong
When the server's own figures moved as well under like conditions. Then it is slower, however it was measured.
"""

from __future__ import annotations

import re
from statistics import median

from dflash_doctor.model import Comparison, Delta, Evidence, Finding, Interval, Snapshot
from dflash_doctor.rules.caching import asked, cache_lines, hit_rate, volatile
from dflash_doctor.rules.drafting import drafting
from dflash_doctor.rules.seen import proof

FLATTERING = re.compile(r"random|loop|repeat|\braw\b|synthetic|padding", re.I)
CEILING = 0.93  # of draft length plus one: no drafter keeps that much of real text
ALIKE, OFF = 0.93, 0.8  # the engine's lines say as before from the one on, the client less from the other down
YOUNG = 2_000_000  # prompt tokens; a server that has seen fewer had little to keep for the next run


def check(c: Comparison) -> Finding | None:
    if c.was is None:
        return None
    for reason in (_shared(c), _warm_cache(c), _server_disagrees(c), _log_disagrees(c), _flattered(c)):
        if reason is not None:
            words, confidence, lines = reason
            return Finding(
                cause="",
                summary=f"no regression is shown: {words}",
                confidence=confidence,
                severity="warning",
                evidence=lines,
                next_steps=(
                    "measure again: idle server, cold prompts, full-length answers, the same client on both sides",
                ),
            )
    return None


Reason = tuple[str, float, tuple[Evidence, ...]]


def _shared(c: Comparison) -> Reason | None:
    """More requests run than the client says it sent, and more than when tuned."""
    said = [s.concurrency for s in c.now.samples if s.workload is not None and s.concurrency]
    rows = [i for i in c.now.intervals if i.running]
    if not said or not rows:
        return None
    ran = median(i.running or 0 for i in rows)
    before = [i.running or 0 for i in c.was.intervals if i.running] if c.was else []
    if ran <= max(said) + 0.5 or (before and median(before) > max(said) + 0.5):
        return None
    lines = tuple(Evidence("server.log", i.text, i.line) for i in rows[:2] if i.text)
    return f"the client sent {max(said):.0f} at once, but {ran:.0f} requests run: others share this server", 0.85, lines


def _warm_cache(c: Comparison) -> Reason | None:
    """The baseline's prompts were cached and this run's were not, with the cache on in both and nothing old here."""
    now, was = hit_rate(c.now), hit_rate(c.was) if c.was else None
    if now is None or was is None or was < 0.3 or now > 0.1 or c.now.value("sched.prefix_cache") is False:
        return None
    if (asked(c.now) or 0) > YOUNG or c.drift("spec.method", "sched.prefix_cache", "kv.*"):
        return None  # an old server should have hit; another set-up may be why it does not
    if volatile(c) is not None:
        return None  # the prompts were changed so that nothing can be shared: that is no chance of this run
    words = f"the baseline's prompts were in the prefix cache ({was:.0%} hits), these were cold ({now:.0%})"
    return words, 0.8, cache_lines(c.now)


def _server_disagrees(c: Comparison) -> Reason | None:
    """The client reports slower tokens while the server counts the same time per token."""
    client = [
        d
        for d in c.deltas
        if d.metric in ("tpot_ms", "itl_ms", "output_tok_s") and d.workload is not None and d.verdict == "worse"
        and not _waited(c, d)
    ]  # fmt: skip
    # a step is no token: where acceptance fell the step may well be as it was
    server = [d for d in c.deltas if d.workload is None and d.metric == "tpot_ms"]
    if not client or not server:
        return None
    if any(abs(d.factor - 1) > 0.1 for d in server):
        return None
    seen, counted = client[0], server[0]
    words = f"the client sees {seen.metric} at {seen.factor:.2f}x, the server's own counters {counted.factor:.2f}x"
    return words, 0.8, proof(seen, counted)


def _log_disagrees(c: Comparison) -> Reason | None:
    """The client reports a lower rate while the engine's own lines show the old one at as many running requests."""
    for d in c.delta("output_tok_s"):
        if d.workload is None or d.verdict != "worse" or not d.concurrency or _waited(c, d):
            continue
        now, was = (_logged(s, d.concurrency) for s in (c.now, c.was) if s is not None)
        # without the old lines the old rate itself will do, where it was not of the client's making alone
        then = median(i.generation_tok_s or 0 for i in was) if was else d.was
        if not now or not then:
            continue
        said = median(i.generation_tok_s or 0 for i in now)
        if said < ALIKE * then or d.now > OFF * said:
            continue
        lines = tuple(Evidence("server.log", i.text, i.line) for i in now if i.generation_tok_s and i.text)[-2:]
        words = f"the client tells {d.now:.4g} tok/s, the engine's own lines {said:.4g} as before ({then:.4g})"
        return words + _chunks(c, said / d.now), 0.85, lines
    return None


def _waited(c: Comparison, d: Delta) -> bool:
    """Whether the client's rate fell because first tokens took longer, which the engine's decode lines do not show."""
    like = {
        x.metric for x in c.deltas if (x.workload, x.concurrency, x.verdict) == (d.workload, d.concurrency, "worse")
    }
    return "ttft_ms" in like and not like & {"tpot_ms", "itl_ms"}


def _logged(s: Snapshot, concurrency: float) -> list[Interval]:
    """Intervals with about as many requests as the client sent at once, and with no prompt among them for long."""
    rows = [i for i in s.intervals if i.kind != "prefill" and i.generation_tok_s and i.running]
    return [i for i in rows if abs((i.running or 0) - concurrency) <= 0.1 * concurrency]


def _chunks(c: Comparison, ratio: float) -> str:
    """Whether the client counts chunks for tokens: then it is low by just what a step keeps."""
    kept = drafting(c.now).length
    counts = kept is not None and kept > 1.2 and abs(ratio / kept - 1) < 0.1
    return f"; that is low by the {kept:.2f} tokens of a step: it counts chunks" if counts else ""


def _flattered(c: Comparison) -> Reason | None:
    """The fast number comes from text that any drafter predicts (loops, repeats), the slow one from real prompts."""
    then = [s for s in (c.was.samples if c.was else ()) if s.workload and FLATTERING.search(s.workload)]
    here = {s.workload for s in c.now.samples if s.workload}
    if not then or not here or here & {s.workload for s in then}:
        return None
    was = drafting(c.was) if c.was else None
    ceiling = bool(was and was.length and was.depth and was.length >= CEILING * (was.depth + 1))
    real = not any(FLATTERING.search(w) for w in here)
    if not ceiling and not real:
        return None
    kept = f" ({was.length:.2f} of {was.depth + 1} tokens kept)" if ceiling and was and was.length and was.depth else ""
    words = f"the baseline's number comes from raw, random or looping text, which any drafter predicts{kept}"
    return words, 0.8 if ceiling else 0.7, tuple(s.evidence for s in then if s.evidence)[:1]
