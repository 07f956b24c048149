"""Exit statuses: what a script or a nightly job learns without reading the report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dflash_doctor.cli.diagnosing import status
from dflash_doctor.model import Comparison, Diagnosis, Finding, Gap, Snapshot

SEEN = Diagnosis("gpu7", "healthy", Comparison(Snapshot("gpu7")))
LOUD = Finding("spec.not_active", "speculation is off", 0.9, "critical")
QUIET = replace(LOUD, severity="info")
GAP = Gap("gpu", "driver 535 does not report clock reasons")

# verdict, findings, gaps -> as it is, with --strict
ROWS = [
    ("healthy", (), (), 0, 0),
    ("healthy", (QUIET,), (GAP,), 0, 2),
    ("minor", (), (), 0, 0),
    ("minor", (), (GAP,), 0, 2),
    ("regressed", (LOUD,), (), 1, 1),
    ("regressed", (), (GAP,), 1, 1),
    ("suspect", (LOUD,), (GAP,), 1, 1),
    ("suspect", (QUIET,), (), 0, 0),
    ("suspect", (QUIET,), (GAP,), 0, 2),
    ("unconfirmed", (), (), 0, 1),
    ("unconfirmed", (), (GAP,), 0, 1),
    ("inconclusive", (), (), 2, 2),
    ("inconclusive", (), (GAP,), 2, 2),
    ("not_comparable", (LOUD,), (), 2, 2),
    ("not_comparable", (), (GAP,), 2, 2),
]


@pytest.mark.parametrize(("verdict", "findings", "gaps", "plainly", "strictly"), ROWS)
def test_every_verdict_has_its_exit_status(verdict, findings, gaps, plainly, strictly):
    found = replace(SEEN, verdict=verdict, findings=findings, gaps=gaps)
    assert (status(found), status(found, strict=True)) == (plainly, strictly)
