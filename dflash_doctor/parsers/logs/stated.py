"""What an engine states about itself in single lines -> Settings: what it chose, lowered, switched off or refused.

Whole configurations (`non-default args`, `with config:`, `server_args=`) go through settings.from_args; the lines here
are those by which the engine says what it made of them. Later lines overrule earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dflash_doctor import settings
from dflash_doctor.model import Evidence, Said, Setting
from dflash_doctor.parsers.logs.events import LONGEST_EVIDENCE, Event
from dflash_doctor.parsers.logs.says import SAYS


def stated(events: Iterable[Event], engine: str, version: str | None, source: str) -> tuple[Setting, ...]:
    """Settings of one boot, in the order in which they were said."""
    found: list[Setting] = []
    drafter = _Drafter()
    for e in events:
        drafter.follow(e)
        where = Evidence(source, e.record.text[:LONGEST_EVIDENCE], e.number)
        if e.id in ("engine.args", "engine.config"):
            found += _configuration(e, engine, version, where)
            continue
        say = SAYS.get(e.id)
        if say is None:
            continue
        for key, value in say(e.fields, e.record.body):
            key = drafter.key(key, value)
            if key:
                found.append(Setting(key, value, "effective", "", where))
    return tuple(_without_contradiction(found))


# -- whole configurations ---------------------------------------------------------------------------------------------


def _configuration(e: Event, engine: str, version: str | None, where: Evidence) -> tuple[Setting, ...]:
    text = e.fields.get("args") or e.fields.get("config") or ""
    args = settings.read_config(text)
    said: Said = "effective"
    if engine == "vllm" and e.id == "engine.args":
        said = "asked"
        # the complete namespace of older versions holds every option: None is one that nobody gave
        args = {k: v for k, v in args.items() if v is not None} if text.startswith("Namespace") else args
        args.pop("model_tag", None)
    if engine == "vllm" and e.id == "engine.config":
        args = {k: v for k, v in args.items() if k not in NOT_SETTINGS}
    return settings.from_args(engine, args, version, said, where)


# of the engine config: what it prints about its surroundings, not about how it runs
NOT_SETTINGS = ("served_model_name", "seed", "pooler_config", "override_neuron_config", "mm_processor_kwargs")


# -- target and drafter -----------------------------------------------------------------------------------------------


class _Drafter:
    """Target and drafter print the same lines; the drafter's come second."""

    ONCE = ("model.path", "model.architecture", "model.dtype", "model.quantization", "mem.max_context", "kv.dtype")

    def __init__(self) -> None:
        self.loading = False
        self.said: dict[str, Any] = {}

    def follow(self, e: Event) -> None:
        if e.id == "spec.drafter_loading":
            self.loading = True
        if e.id in ("engine.args", "engine.config", "engine.version"):
            self.said.clear()
            self.loading = False

    def key(self, key: str, value: Any) -> str:
        """The key under which to keep this value; empty when it is only the drafter's and has no key of its own."""
        if key == "attention.backend":
            known = self.said.setdefault(key, value)
            return "attention.draft_backend" if self.loading and known != value else key
        if key in self.ONCE:
            return key if self.said.setdefault(key, value) == value else ""
        return key


def _without_contradiction(found: list[Setting]) -> list[Setting]:
    """What was said last of each key and strength; what was captured belongs to the last mode."""
    last = {(s.key, s.said): i for i, s in enumerate(found)}
    kept = [s for i, s in enumerate(found) if last[(s.key, s.said)] == i]
    modes = {s.said: s.value for s in kept if s.key == "cudagraph.mode"}
    if modes.get("effective") == "none":
        kept = [s for s in kept if s.key not in ("cudagraph.sizes", "cudagraph.max_size") or s.said != "effective"]
    return kept
