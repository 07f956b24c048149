"""Where the clocks of one load disagree: our chunks, the server's `usage`, its counters and its own histograms.

A number that is not to be trusted is not given as one; what is only odd is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from dflash_doctor.formats.load import Request, Round, Server

# as long as no more gaps are none, the median of the others is off by less than an eighth of their spread
BUNCHED = 0.1
TOKENS = 0.02  # usage against counters: a request of ours that was cut counts in one of them only
STEPS = 0.1  # chunks against steps of the engine
OUTSIDE_MS, OUTSIDE = 30.0, 0.1  # of an answer's time that may pass outside the engine


@dataclass(frozen=True)
class Doubt:
    """What is odd in a round, and the metrics that are left out for it."""

    what: str
    why: str
    metrics: tuple[str, ...] = ()


def bunched(q: Request) -> bool:
    """Whether too many chunks of an answer came together for their gaps to be steps."""
    return q.bunched is not None and q.bunched > BUNCHED


def doubts(r: Round) -> Iterator[Doubt]:
    """All that can be told from one round."""
    well = [q for q in r.requests if q.status == "ok"]
    together = sum(map(bunched, well))
    if together and r.concurrency == 1:
        yield Doubt(
            "step time",
            f"{together} of {len(r.requests)} answers came in bunches of chunks (a proxy, a tunnel, or a client that "
            "was kept from reading): their gaps are no steps, so no step time is taken from them",
        )
    if r.server is None or not well:
        return
    yield from _impossible(r.server)
    if len(well) == len(r.requests) and r.server.foreign_running_max == 0:  # else the server counted others' too
        yield from _counted(well, r.server)
        yield from _timed(well, r.server)


def _impossible(s: Server) -> Iterator[Doubt]:
    most = len(s.per_position) + 1
    if s.per_position and s.accept_length is not None and s.accept_length > most + 0.01:
        yield Doubt(
            "acceptance",
            f"the counters give {s.accept_length:.2f} tokens a step where {most} are the most that can be: "
            "they are of several servers, or were reset",
            ("accept_length", "accept_first", "accept_rate"),
        )


def _counted(well: list[Request], s: Server) -> Iterator[Doubt]:
    told = sum(q.output_tokens or 0 for q in well)
    if s.output_tokens and abs(told / s.output_tokens - 1) > TOKENS:
        yield Doubt(
            "tokens",
            f"the answers say {told} tokens (usage), the server's counters {s.output_tokens:.0f}: "
            "another server answers to /metrics, or others used this one",
        )
    steps, made = sum(q.chunks - 1 for q in well), told - len(well)
    if s.accept_length is None or steps <= 0:
        return
    each, least = made / steps, made / s.accept_length
    # the last step of an answer is cut at its length: one step more than that for each
    if not (1 - STEPS) * least <= steps <= (1 + STEPS) * (least + len(well)):
        yield Doubt(
            "chunks",
            f"a chunk carries {each:.2f} tokens and a step of the engine gives {s.accept_length:.2f}: "
            "chunks are not steps here, so no step time is taken from them",
            ("step_time_ms", "tokens_per_chunk"),
        )


def _timed(well: list[Request], s: Server) -> Iterator[Doubt]:
    for name, ours, theirs in (
        ("first tokens", [q.ttft_ms for q in well], s.ttft_ms),
        ("whole answers", [q.e2e_ms for q in well], s.e2e_ms),
    ):
        seen = fmean(v for v in ours if v is not None)
        if theirs is None or abs(seen - theirs) <= max(OUTSIDE_MS, OUTSIDE * theirs):
            continue
        where = "the rest passes outside the engine" if seen > theirs else "its clock and ours do not agree"
        yield Doubt(name, f"{name} took {seen:.0f} ms here and {theirs:.0f} ms by the server's own clock: {where}")
