"""The vocabulary of causes (data/causes.yaml): what kind each is and what it means. A noun, like metrics.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

import yaml

from dflash_doctor import paths


@dataclass(frozen=True)
class Cause:
    """One name of the vocabulary. A root ends an explanation, an effect wants a root behind it."""

    name: str
    kind: Literal["root", "effect", "verdict"]
    means: str


@cache
def causes() -> Mapping[str, Cause]:
    """Every cause by name, in the file's order."""
    families = yaml.safe_load(paths.data("causes.yaml").read_text(encoding="utf-8"))
    found: dict[str, Cause] = {}
    for family, faults in families.items():
        if family == "none":
            continue
        for fault, row in faults.items():
            found[f"{family}.{fault}"] = Cause(f"{family}.{fault}", row["kind"], row["means"])
    return found
