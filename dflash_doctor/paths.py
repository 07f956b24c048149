"""Where the packaged data is, in a checkout and in a wheel."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent


def data(*parts: str) -> Path:
    """A file of dflash_doctor/data/: facts as data."""
    return PACKAGE.joinpath("data", *parts)


def probes(*parts: str) -> Path:
    """A file of probes/: what is asked of a host."""
    return _top("probes", *parts)


def baselines(*parts: str) -> Path:
    """A file of the shipped baselines/."""
    return _top("baselines", *parts)


def _top(folder: str, *parts: str) -> Path:
    # in a wheel the folder lies inside the package, in a checkout beside it
    inside = PACKAGE / folder
    return (inside if inside.is_dir() else PACKAGE.parent / folder).joinpath(*parts)
