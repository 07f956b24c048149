"""The frozen prompts and the presets, from probes/load/."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import yaml

from dflash_doctor import paths
from dflash_doctor.model import Refused


@dataclass(frozen=True)
class Prompt:
    """One prompt of the battery; its id is the pairing key."""

    id: str
    kind: str
    text: str


@dataclass(frozen=True)
class Preset:
    """How much load is brought."""

    name: str
    seconds: float
    prompts: int
    concurrency: tuple[int, ...]
    warmups: int
    warmup_tokens: int
    tokens: tuple[int, ...]  # lengths to choose from, longest first


@cache
def battery() -> tuple[int, tuple[Prompt, ...]]:
    """The version and the prompts, in their order."""
    document = yaml.safe_load(paths.probes("load", "battery.yaml").read_text(encoding="utf-8"))
    return int(document["version"]), tuple(Prompt(p["id"], p["kind"], p["text"]) for p in document["prompts"])


def preset(name: str) -> Preset:
    """A preset by its name."""
    known = yaml.safe_load(paths.probes("load", "presets.yaml").read_text(encoding="utf-8"))
    if name not in known:
        raise Refused(f"--preset {name} is not known; it is one of {', '.join(known)}")
    row = known[name]
    return Preset(
        name, float(row["seconds"]), int(row["prompts"]), tuple(row["concurrency"]), int(row["warmups"]),
        int(row["warmup_tokens"]), tuple(row["tokens"]),
    )  # fmt: skip
