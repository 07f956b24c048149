"""Two nights to confirm: a small loss seen once is `unconfirmed`, seen again or larger it is `regressed`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dflash_doctor.history.runs import Run
from dflash_doctor.model import Diagnosis
from dflash_doctor.stats import AT_ONCE

JUDGED = ("healthy", "minor", "regressed", "unconfirmed")  # verdicts of a night whose speed was measured
SLOWER = ("regressed", "unconfirmed")


def settled(found: Diagnosis, before: Iterable[Run]) -> Diagnosis:
    """The diagnosis of a nightly check, given the host's earlier runs (oldest first).

    Only nights held against the same baseline count, and nights on which no speed was measured say nothing.
    """
    slow = found.slowdown
    if found.verdict != "regressed" or slow is None or slow.factor < 1 - AT_ONCE:
        return found
    judged = [r for r in before if r.verdict in JUDGED and r.baseline == found.baseline]
    if judged and judged[-1].verdict in SLOWER:
        return found
    note = f"seen in one check only: less than {AT_ONCE:.0%} is a regression when the next check sees it too"
    return replace(found, verdict="unconfirmed", notes=(*found.notes, note))
