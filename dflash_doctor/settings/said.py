"""What an engine or a person said, as Settings: argument names and raw values in, neutral keys and values out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from dflash_doctor.model import Evidence, Said, Setting
from dflash_doctor.settings.config_text import read_config
from dflash_doctor.settings.derived import derive
from dflash_doctor.settings.rows import SETTINGS, UNSET, Spelled, by_name
from dflash_doctor.settings.values import HIDDEN, neutral, plain, secret
from dflash_doctor.settings.versions import LOOKED_AT, at, first_of, last_of

# options that carry settings of their own, given as JSON, as a dict or as Python prints it
CONTAINERS = (
    "speculative_config",
    "compilation_config",
    "attention_config",
    "kernel_config",
    "structured_outputs_config",
    "guided_decoding_config",
    "decoding_config",
    "eplb_config",
    "cuda_graph_config",
)
# vLLM's configuration object: the group says nothing that the name inside does not
GROUPS = (
    "model_config",
    "cache_config",
    "parallel_config",
    "scheduler_config",
    "device_config",
    "load_config",
    "lora_config",
    "observability_config",
    "offload_config",
    "multimodal_config",
    "mamba_config",
)
DEEPEST = 6
Seen = Callable[[str], Evidence | None]  # name as in the flattened dict -> the line it stands in
NO_SETTING = ("subparser", "dispatch_function")  # what argparse itself leaves among the arguments
ALWAYS_GIVEN = ("model.path", "parallel.ep")  # vLLM's own default model is nobody's server; ep has no single flag


def from_args(
    engine: str,
    args: Mapping[str, Any],
    version: str | None,
    said: Said,
    evidence: Evidence | None = None,
) -> tuple[Setting, ...]:
    """Settings of a dict of arguments or configuration, as the engine names them.

    Names no row knows become `other.<name>`.
    """
    return told(engine, args, version, said, lambda _: evidence)


def told(
    engine: str,
    args: Mapping[str, Any],
    version: str | None,
    said: Said,
    seen: Seen,
    spelled: Mapping[str, str] | None = None,
) -> tuple[Setting, ...]:
    """`from_args` where each name has evidence of its own; `spelled` says how a person wrote a name."""
    flat = flatten(args)
    found: dict[str, Setting] = {}
    for name, raw in flat.items():
        known = _known(engine, name)
        if known is None:
            if raw is not None and not name.startswith("_") and name not in NO_SETTING:
                found[f"other.{name}"] = Setting(
                    f"other.{name}",
                    HIDDEN if secret(name, raw) else plain(raw),
                    said,
                    _written(spelled, name),
                    seen(name),
                )
            continue
        row, spelling = known
        value = HIDDEN if secret(name, raw) else neutral(row, spelling, raw)
        if value is UNSET:
            continue
        written = _written(spelled, name) if spelled else spelling.written
        found[row.key] = Setting(row.key, value, said, written, seen(name))
    return tuple(derive(engine, found, flat, version, said, seen).values())


def _known(engine: str, name: str) -> Spelled | None:
    names = by_name(engine)
    found = names.get(name)
    if found is None:
        head, dot, rest = name.partition(".")
        if dot and head in GROUPS:
            return names.get(rest)
    return found


def _written(spelled: Mapping[str, str] | None, name: str) -> str:
    if spelled is None:
        return name
    return spelled.get(name) or spelled.get(name.partition(".")[0], name)


# -- nested options ---------------------------------------------------------------------------------------------------


def flatten(args: Mapping[str, Any]) -> dict[str, Any]:
    """Nested options under dotted names; names with underscores."""
    flat: dict[str, Any] = {}
    _into(flat, "", args, 0)
    return flat


def _into(flat: dict[str, Any], prefix: str, args: Mapping[str, Any], depth: int) -> None:
    for key, raw in args.items():
        name = prefix + str(key).lstrip("-").replace("-", "_")
        value = opened(raw) if name in CONTAINERS else raw
        if isinstance(value, Mapping) and (value or name in CONTAINERS) and depth < DEEPEST:
            _into(flat, name + ".", value, depth + 1)
        else:
            flat[name] = value


def opened(raw: Any) -> Any:
    """A JSON option as a dict: from JSON, from Python's print, or as it is."""
    if not isinstance(raw, str):
        return raw
    text = raw.strip()
    if text.startswith("{"):
        try:
            loaded = json.loads(text)
            return loaded if isinstance(loaded, dict) else raw
        except (ValueError, RecursionError):
            pass
    if "{" in text or "(" in text:
        return read_config(text) or raw
    return raw


# -- defaults ---------------------------------------------------------------------------------------------------------


def defaults(engine: str, version: str | None) -> tuple[Setting, ...]:
    """What this version does when nobody says anything: only plain values that are known for it.

    Variables of the environment are left out: whether they are unset is known only when the environment was read.
    """
    found: dict[str, Setting] = {}
    for row in SETTINGS.values():
        if row.speed < 0.1 or row.same == "any" or row.key.startswith(("env.", "spec.")) or row.key in ALWAYS_GIVEN:
            continue
        for s in row.spellings(engine):
            if s.default is UNSET or s.default is None or not s.acts(version):
                continue
            known, raw = at(s.default, version, engine)
            value = neutral(row, s, raw) if known and not str(raw).startswith("<") else UNSET
            if value is not UNSET and value != "":
                found.setdefault(row.key, Setting(row.key, value, "default", s.written))
    return (*found.values(), *_unwritten(engine, found))


@cache
def constant_defaults(engine: str) -> tuple[Setting, ...]:
    """Defaults that are the same in every release that was looked at."""
    first, *_, last = LOOKED_AT[engine]
    found = {s.key: s for s in defaults(engine, last)}
    kept = []
    for key, setting in found.items():
        for s in SETTINGS[key].spellings(engine) if key in SETTINGS else ():
            everywhere = first_of(s.versions) == first and last_of(s.versions) == last and "," not in (s.versions or "")
            if everywhere and s.default is not UNSET and not isinstance(s.default, Mapping):
                kept.append(setting)
                break
    return tuple(kept)


def _unwritten(engine: str, found: Mapping[str, Setting]) -> Iterable[Setting]:
    """Defaults that no single option states."""
    if engine in ("vllm", "sglang") and found:
        yield Setting("spec.method", "none", "default")
        yield Setting("parallel.ep", 1, "default")
