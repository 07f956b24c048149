"""What the rules of the spec family ask: how well drafts are accepted, then and now, and by what drafter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median

from dflash_doctor import settings
from dflash_doctor.model import Comparison, Evidence, Sample, Snapshot, lines
from dflash_doctor.physics import curve, tokens_per_step

# a first position accepted less often than this is not a weak guess but no guess at all: a wrong token of a
# vocabulary of 100,000 is hardly ever right by chance, while even a badly trained head gets one in ten
WIRED_WRONGLY = 0.03
NEVER = 1.1  # tokens per step up to which drafting gives nothing: the dearest part of a step is drafting it
LENGTH = re.compile(r"(?<![\w.])(?P<n>\d+(?:\.\d+)?)\s*(?P<k>k)\b|(?:ctx|context|len|input)[-_ ]?(?P<m>\d{3,})", re.I)
LONG, SHORT = 8000, 2000  # tokens of context; drafters are usually trained up to 2k or 4k
# where contexts reach far beyond that: short is under an eighth of the longest, long is the upper half
FAR, NEAR = 8, 2
# what one pass of a serial drafter costs beside a pass of the target, at the least: a head is one layer of some 32
# to 64 and a vocabulary projection
PASS = 0.04
COPIES = ("ngram", "suffix")  # draft what stood in the text before, without a model
SERIAL = ("mtp", "eagle", "eagle3", "draft_model", "medusa")  # one pass of the drafter for each position


@dataclass(frozen=True)
class Drafting:
    """One side's speculation."""

    method: str | None
    drafter: str | None
    depth: int | None
    length: float | None  # tokens per step, bonus counted
    first: float | None  # acceptance of the first draft position
    curve: tuple[float, ...]

    @property
    def on(self) -> bool:
        return self.method not in (None, "none") or (self.length or 1.0) > NEVER

    @property
    def useless(self) -> bool:
        """Whether a drafter gives next to nothing; copying from the text has nothing that could be wired wrongly."""
        return self.length is not None and self.length <= NEVER and self.method not in COPIES


def drafting(s: Snapshot) -> Drafting:
    """What a snapshot knows of its speculation."""
    positions = curve(s)
    firsts = [x.value for x in s.samples if x.metric == "accept_first"]
    first = positions[0] if positions else (median(firsts) if firsts else None)
    depth = s.value("spec.depth")
    length = tokens_per_step(s)
    if first is None and length is not None and depth == 1:
        first = length - 1
    return Drafting(
        method=s.value("spec.method"),
        drafter=s.value("spec.draft_model"),
        depth=int(depth) if isinstance(depth, (int, float)) else (len(positions) or None),
        length=length,
        first=first,
        curve=positions,
    )


def fell(c: Comparison) -> bool:
    """Whether fewer tokens are kept per step than in the baseline, beyond the noise of such values."""
    seen = c.delta("accept_length", "tokens_per_chunk")
    # a measured load says more than whatever traffic the log tells of, a known crowd more than an unknown one
    best = [d for d in seen if d.workload is not None] or [d for d in seen if d.concurrency is not None] or seen
    if any(d.verdict == "worse" for d in best):
        return True
    if c.was is None or c.delta("accept_length"):
        return False
    now, was = tokens_per_step(c.now), tokens_per_step(c.was)
    return now is not None and was is not None and now < 0.8 * was


def same_drafter(c: Comparison) -> bool:
    """Whether both sides draft with the same method and, as far as they say, the same checkpoint."""
    if c.was is None:
        return False
    now, was = drafting(c.now), drafting(c.was)
    if now.method != was.method:
        return False
    return now.drafter is None or was.drafter is None or settings.alike("spec.draft_model", was.drafter, now.drafter)


def acceptance(s: Snapshot) -> tuple[Evidence, ...]:
    """The lines that show how drafts are accepted: the engine's own summary, then what was measured; two at most."""
    said = [x.evidence for x in s.find("spec.metrics", "sched.decode_batch")]
    measured = [x for x in s.samples if x.metric in ("accept_length", "accept_first") and x.evidence]
    lines = [*said, *(x.evidence for x in sorted(measured, key=_unlike_log))]
    return tuple(dict.fromkeys(e for e in lines if e is not None))[:2]


def _unlike_log(x: Sample) -> bool:
    return x.conditions.get("from") == "log"


def shown(d: Drafting) -> str:
    """`1.17 tokens per step, first position 12 %`."""
    words = [] if d.length is None else [f"{d.length:.2f} tokens per step"]
    if d.first is not None:
        words.append(f"first position {d.first:.0%}")
    if d.depth:
        words.append(f"{d.depth} drafted")
    return ", ".join(words)


def worth_turning_off(d: Drafting) -> str | None:
    """A step worth taking where so little is kept that drafting cannot pay much, whatever a drafted step costs."""
    return None if d.length is None or d.length > 1.3 else "turn speculation off once and compare"


def decays(c: Comparison) -> tuple[float, float, tuple[Evidence, ...]] | None:
    """Tokens per step at short and at long contexts where they fall clearly, and fell less when tuned."""
    now, was = short_and_long(c.now), short_and_long(c.was)
    if now is None or now[1] > 0.75 * now[0]:
        return None
    return None if was is not None and was[1] < 0.85 * was[0] else now


def context_of(workload: str | None) -> float | None:
    """Tokens of context that a workload's name tells (`32k`, `ctx-8000`)."""
    m = LENGTH.search(workload or "")
    if m is None:
        return None
    return float(m["m"]) if m["m"] else 1000 * float(m["n"])


def _context(x: Sample) -> float | None:
    """Tokens of context behind a sample: what the row says, else what its workload's name says (`32k`, `ctx-8000`)."""
    size = x.conditions.get("input_tokens")
    if isinstance(size, (int, float)):
        return float(size)
    return context_of(x.workload)


def short_and_long(s: Snapshot | None) -> tuple[float, float, tuple[Evidence, ...]] | None:
    """Median acceptance length at short and at long contexts, from single-request intervals or from load rows."""
    if s is None:
        return None
    rows = [
        (i.context_tokens, i.accept_length, Evidence("server.log", i.text, i.line) if i.text else None)
        for i in s.intervals
        if i.context_tokens and i.accept_length and i.running == 1
    ]
    rows += [(n, x.value, None) for x in s.samples if x.metric == "accept_length" and (n := _context(x)) is not None]
    longest = max((n for n, _, _ in rows), default=0.0)
    short = [a for n, a, _ in rows if n < max(SHORT, longest / FAR)]
    long = [(a, line) for n, a, line in rows if n > max(LONG, longest / NEAR)]
    if not short or not long:
        return None
    return float(median(short)), float(median(a for a, _ in long)), lines([line for _, line in long])[:2]
