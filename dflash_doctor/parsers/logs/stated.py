"""What an engine states about itself in single lines -> Settings: what it chose, lowered, switched off or refused.

Whole configurations (`non-default args`, `with config:`, `server_args=`) go through settings.from_args; the lines here
are those by which the engine says what it made of them. Later lines overrule earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dflash_doctor import settings
from dflash_doctor.model import Evidence, Said, Setting
from dflash_doctor.parsers.logs.events import LONGEST_EVIDENCE, Event
from dflash_doctor.parsers.logs.says import SAYS


def stated(events: Sequence[Event], engine: str, version: str | None, source: str) -> tuple[Setting, ...]:
    """Settings of one boot, in the order in which they were said."""
    found: list[Setting] = []
    drafter = _Drafter()
    for e in events:
        drafter.follow(e)
        where = _where(e, source)
        if e.id in ("engine.args", "engine.config"):
            found += _configuration(e, engine, version, where)
            continue
        say = SAYS.get(e.id)
        if say is None:
            continue
        for key, value in say(e.fields, e.record.body):
            kept = drafter.key(key, value, "fit" in e.fields)
            if kept and not (e.id == "engine.capacity" and _of_one_rank(kept, found)):
                found.append(Setting(kept, value, "effective", "", where))
    return tuple(_without_contradiction([*found, *_shown(events, engine, found, source)]))


def _of_one_rank(key: str, found: Sequence[Setting]) -> bool:
    """SGLang's schedulers print their share of the requests; the arguments told the whole where it was asked for."""
    return key == "sched.max_seqs" and any(s.key == key for s in found)


# -- what lines show without saying it --------------------------------------------------------------------------------


def _shown(events: Sequence[Event], engine: str, found: Sequence[Setting], source: str) -> Iterator[Setting]:
    """The graph mode by what was captured; no speculation by batch lines that name no acceptance."""
    known = {s.key for s in found if s.said == "effective"}
    if "cudagraph.mode" not in known:
        mode, e = (_sglang_graphs if engine == "sglang" else _vllm_graphs)(events)
        if mode is not None and e is not None:
            yield Setting("cudagraph.mode", mode, "effective", "", _where(e, source))
    if engine == "sglang" and "spec.method" not in known:
        batches = [e for e in events if e.id == "sched.decode_batch"]
        if batches and not any("accept len:" in e.record.body for e in batches):
            yield Setting("spec.method", "none", "effective", "", _where(batches[0], source))


def _vllm_graphs(events: Sequence[Event]) -> tuple[str | None, Event | None]:
    bars = [e for e in events if e.id == "graph.capture_progress" and "what" not in e.fields]
    modes = {e.fields["mode"] for e in bars if "mode" in e.fields}
    if {"FULL", "PIECEWISE"} <= modes:
        return "full_and_piecewise", bars[-1]
    if modes == {"PIECEWISE"}:
        return "piecewise", bars[-1]
    if modes == {"FULL"}:
        phases = {e.fields.get("phase", "") for e in bars}
        return "full_decode_only" if phases == {"decode"} else "full", bars[-1]
    # the V0 engine has graphs for decode steps only, and prints no mode
    v0 = any(e.id == "engine.config" and " V1 " not in e.record.body[:40] for e in events)
    done = [e for e in events if e.id == "graph.capture_done"]
    return ("full_decode_only", done[-1]) if v0 and done else (None, None)


def _sglang_graphs(events: Sequence[Event]) -> tuple[str | None, Event | None]:
    decode = [e for e in events if e.id == "graph.capture" and "begin" in e.record.body[:60]]
    prefill = any(e.id == "graph.prefill" and "begin" in e.record.body[:60] for e in events)
    if not decode:
        return None, None
    return "full_and_piecewise" if prefill else "full_decode_only", decode[-1]


def _where(e: Event, source: str) -> Evidence:
    return Evidence(source, e.record.text[:LONGEST_EVIDENCE], e.number)


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

    def key(self, key: str, value: Any, corrected: bool = False) -> str:
        """The key under which to keep this value; empty when it is only the drafter's and has no key of its own."""
        if corrected:
            return key
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
