"""The frozen prompts and the presets, from probes/load/."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import yaml

from dflash_doctor import paths
from dflash_doctor.load import texts
from dflash_doctor.model import Refused

BATTERY = "battery"


@dataclass(frozen=True)
class Prompt:
    """One prompt; its id is the pairing key."""

    id: str
    kind: str
    text: str
    before: tuple[tuple[str, str], ...] = ()  # earlier turns: role and text
    tokens: int | None = None  # of the answer, where the preset does not say
    shares: str = ""  # prompts with the same word here begin alike: the later ones are in the prefix cache

    @property
    def longest(self) -> int:
        """More tokens than the whole of it has, in any language that it is written in here."""
        return (len(self.text) + sum(len(text) for _, text in self.before)) // 3


@dataclass(frozen=True)
class Workload:
    """Prompts that are run and compared together."""

    name: str
    version: int
    prompts: tuple[Prompt, ...]


@dataclass(frozen=True)
class Turn:
    """One workload at one concurrency: what one round is to be."""

    workload: Workload
    concurrency: int
    again: int = 0  # so many prompts were run before and are run once more, to see whether the server drifts

    def __str__(self) -> str:
        if self.again:
            return "the first prompts again"
        many = f"{self.concurrency} at once"
        return many if self.workload.name == BATTERY else f"{self.workload.name}, {many}"


@dataclass(frozen=True)
class Preset:
    """How much load is brought."""

    name: str
    seconds: float
    prompts: int  # of the battery
    concurrency: tuple[int, ...]
    warmups: int
    warmup_tokens: int
    tokens: tuple[int, ...]  # lengths to choose from, longest first
    brackets: tuple[str, ...] = ()  # workloads around the battery: what drafting gives at its best and at its worst
    most_warmups: int = 0  # where the server does not settle before
    again: int = 0  # prompts that are repeated at the end
    passes: int = 1  # over the battery, while nothing is decided and there is time

    def turns(self) -> tuple[Turn, ...]:
        """The rounds, in their order."""
        whole = workload(BATTERY)
        battery = replace(whole, prompts=whole.prompts[: self.prompts])
        around = [Turn(workload(name), 1) for name in self.brackets]
        first = replace(whole, prompts=whole.prompts[: self.again])
        last = [Turn(first, 1, self.again)] if self.again else []
        return (*(Turn(battery, c) for c in self.concurrency), *around, *last)


@cache
def workload(name: str) -> Workload:
    """A workload by the name of its file."""
    document = yaml.safe_load(paths.probes("load", f"{name}.yaml").read_text(encoding="utf-8"))
    prompts = []
    for p in document["prompts"]:
        text = p["text"].replace("{made}", texts.made(p["made"])) if "made" in p else p["text"]
        before = tuple((role, said) for role, said in p.get("before", ()))
        prompts.append(Prompt(p["id"], p["kind"], text, before, p.get("tokens"), p.get("shares", "")))
    return Workload(name, int(document["version"]), tuple(prompts))


def preset(name: str) -> Preset:
    """A preset by its name."""
    known = yaml.safe_load(paths.probes("load", "presets.yaml").read_text(encoding="utf-8"))
    if name not in known:
        raise Refused(f"--preset {name} is not known; it is one of {', '.join(known)}")
    row = known[name]
    return Preset(
        name, float(row["seconds"]), int(row["prompts"]), tuple(row["concurrency"]), int(row["warmups"]),
        int(row["warmup_tokens"]), tuple(row["tokens"]), tuple(row.get("brackets", ())), int(row["most_warmups"]),
        int(row.get("again", 0)), int(row.get("passes", 1)),
    )  # fmt: skip
