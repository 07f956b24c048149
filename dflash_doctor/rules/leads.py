"""A real slow-down and nothing named: the differences that remain, and the fewest restarts that find the guilty one.

Differences are weighed by how likely a change of that kind moves speed. Putting back half of the weight at a time is
the best one can do with yes-or-no answers; the expected number of restarts is that of a Huffman code over the weights.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from dflash_doctor import settings
from dflash_doctor.model import Bisection, Comparison, Drift, Evidence, Finding, Lead

MOST = 12  # differences worth a restart; the weakest are left out
FACTS = ("host.uname", "gpu.count", "engine.name")  # differ with the machine, nobody puts them back
PACKAGE, VERSION, DRIVER = 0.5, 0.8, 0.3  # how likely a change of that kind moves speed


def leads(c: Comparison, found: Sequence[Finding]) -> tuple[Lead, ...]:
    """Differences that no finding speaks of, the likeliest first."""
    if c.was is None:
        return ()
    shown = {e for f in found for e in f.evidence}
    told = {e.text for e in shown}
    rest = [
        Lead(d.words(), weight, line)
        for d in c.drifts
        if d.key not in FACTS and (weight := _weight(d.key)) > 0
        and (line := _line(d)) not in shown and d.words() not in told
    ]  # fmt: skip
    return tuple(sorted(rest, key=lambda x: -x.weight)[:MOST])


def _weight(key: str) -> float:
    if key == "engine.version":
        return VERSION
    if key == "gpu.driver":
        return DRIVER
    return PACKAGE if key.startswith("package.") else settings.speed_weight(key)


def _line(d: Drift) -> Evidence | None:
    return next((s.evidence for s in (d.now, d.was) if s is not None and s.evidence is not None), None)


def bisection(found: Sequence[Lead]) -> Bisection | None:
    """Which differences to put back first, and how many restarts to expect; None where there is nothing to part.

    New warnings are no leads: they point somewhere, but nobody can put them back.
    """
    if len(found) < 2:
        return None
    whole, half = sum(x.weight for x in found), 0.0
    first: list[Lead] = []
    for lead in found:
        if first and half + lead.weight / 2 > whole / 2:
            break
        first.append(lead)
        half += lead.weight
    return Bisection(tuple(first), _expected([x.weight / whole for x in found]))


def _expected(shares: Sequence[float]) -> float:
    """The mean length of a Huffman code over these probabilities (Huffman 1952): yes-or-no answers needed."""
    heap = list(shares)
    heapq.heapify(heap)
    total = 0.0
    while len(heap) > 1:
        pair = heapq.heappop(heap) + heapq.heappop(heap)
        total += pair
        heapq.heappush(heap, pair)
    return total
