"""Engine versions as numbers, and the ranges of releases that data/settings.yaml speaks of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

# the releases whose sources the map was read from; nothing is known in between, newer ones are taken to be as the last
LOOKED_AT = {
    "vllm": (
        "0.8.5", "0.9.2", "0.10.2", "0.11.0", "0.12.0", "0.13.0", "0.14.0", "0.15.0", "0.16.0", "0.17.0", "0.18.0",
        "0.19.0", "0.20.1", "0.22.0", "0.24.0", "0.27.1", "0.29.0", "0.32.0", "0.33.0",
    ),
    "sglang": (
        "0.4.6", "0.4.8", "0.4.10", "0.5.1", "0.5.3", "0.5.4", "0.5.6", "0.5.8", "0.5.9", "0.5.10", "0.5.12", "0.5.14",
        "0.5.16", "0.5.18", "0.5.20", "0.5.22", "0.5.23",
    ),
}  # fmt: skip

Version = tuple[int, ...]

# 0.20.1, v0.11.0rc1, 0.8.5.post1, 0.20.1+cu129; 0.1.dev8+g3a5f is a checkout that does not know its version
_NUMBERS = re.compile(r"v?(\d{1,6}(?:\.\d{1,6}){1,3})")


@cache
def number(version: str | None) -> Version | None:
    """The numbers of a release; None for none, or for a build from a checkout that has no release number."""
    found = _NUMBERS.match(version.strip()) if version else None
    if not found:
        return None
    numbers = tuple(int(n) for n in found[1].split("."))
    return None if numbers[:2] == (0, 1) and len(numbers) == 2 else numbers


def first_of(versions: str | None) -> str:
    """`0.13.0..0.33.0` -> `0.13.0`."""
    return (versions or "").split(",")[0].partition("..")[0].strip()


def last_of(versions: str | None) -> str:
    """`0.13.0..0.33.0` -> `0.33.0`."""
    return (versions or "").split(",")[-1].rpartition("..")[2].strip()


def covers(ranges: str | None, version: str | None, engine: str) -> bool | None:
    """Whether `version` lies in `first..last[, first..last]`; None when the releases around it differ."""
    if ranges is None or ranges == "any":
        return True
    asked = number(version)
    if asked is None:
        return None
    looked = [n for v in LOOKED_AT.get(engine, ()) if (n := number(v))]
    spans = _spans(ranges)
    if any(first <= asked <= last for first, last in spans):
        return True
    below = max((n for n in looked if n <= asked), default=None)
    above = min((n for n in looked if n >= asked), default=None)
    inside = [any(first <= n <= last for first, last in spans) for n in (below, above) if n is not None]
    if below is None:  # older than all we looked at
        return None if inside[0] else False
    if above is None:
        return inside[0]
    return inside[0] if inside[0] == inside[1] else None


def at(value: Any, version: str | None, engine: str) -> tuple[bool, Any]:
    """The value that holds in `version`, of one value or of `{ranges: value}`; first whether it is known."""
    if not isinstance(value, Mapping):
        return True, value
    held = [v for ranges, v in value.items() if covers(ranges, version, engine)]
    return (True, held[0]) if held else (False, None)


@cache
def _spans(ranges: str) -> tuple[tuple[Version, Version], ...]:
    spans = []
    for part in ranges.split(","):
        first, _, last = part.strip().partition("..")
        low, high = number(first), number(last or first)
        if low and high:
            spans.append((low, high))
    return tuple(spans)
