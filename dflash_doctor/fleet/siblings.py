"""Before a release is blamed: hosts of the same group that run it too, and whether they are slower as well."""

from __future__ import annotations

from collections.abc import Sequence

from dflash_doctor.formats.check import Checked

RELEASES = ("version.engine_regression", "version.dependency_regression")
FINE = ("healthy", "minor")
SLOWER = ("regressed", "unconfirmed")
NAMED = 3  # hosts named one by one


def beside(host: Checked, all_: Sequence[Checked]) -> str:
    """One sentence about the siblings of a host whose first loud finding blames a release; empty where it does not, or
    where nobody else runs that release."""
    if not host.loud or host.loud[0].cause not in RELEASES:
        return ""
    like = [h for h in all_ if h is not host and _alike(h, host)]
    fine = [h.name for h in like if h.verdict in FINE]
    slower = [h.name for h in like if h.verdict in SLOWER]
    if fine:
        return f"{_named(fine)} run{'s' * (len(fine) == 1)} the same release as tuned: look at this host first"
    if slower:
        return f"{_named(slower)} of the same release {'is' if len(slower) == 1 else 'are'} slower too: the release"
    return ""


def _alike(a: Checked, b: Checked) -> bool:
    """Same group (those without one are together) and same engine release."""
    if a.report is None or b.report is None or not (set(a.groups) & set(b.groups) or not (a.groups or b.groups)):
        return False
    return a.report.engine == b.report.engine and a.report.engine.version is not None


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
