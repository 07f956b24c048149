"""Snapshot x baseline -> Comparison: which numbers moved, which settings differ, which warnings are new.

Numbers are held against each other only under like conditions (workload, concurrency and what the request asked for);
settings may differ, that is a Drift and usually the answer; conditions (hardware) must not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from dflash_doctor import settings
from dflash_doctor.metrics import METRICS
from dflash_doctor.model import (
    Basis,
    Comparison,
    Delta,
    Drift,
    Evidence,
    Gap,
    Sample,
    Setting,
    Signal,
    Snapshot,
    lines,
)
from dflash_doctor.stats import judge

# what a request asked for: two numbers are held against each other only when these agree
ASKED = ("input_tokens", "output_tokens", "request_rate", "dataset", "definition", "from", "derived", "version")
# these grow with the length of the answers, and a load asks for the length that its time has room for
BY_ANSWER = ("e2e_ms", "req_s")
GPU_CONDITIONS = (
    "power.limit",
    "pcie.link.gen.max",
    "pcie.link.width.max",
    "mig.mode.current",
    "compute_mode",
    "ecc.mode.current",
)
LENGTHS = ("input_tokens", "output_tokens", "request_rate")
MEANS, FAR = ("mean_input_tokens", "mean_output_tokens"), 0.5  # measured, so they wander: only far ones count
CLOSE = 0.8  # answers that end on their own differ by some per cent in length; their rates can still be compared
ARGUMENTS = "server_args="
ENGINES = ("vllm", "sglang")
LEVELS = ("WARNING", "ERROR", "CRITICAL")

Key = tuple[str, str | None, float | None, tuple[tuple[str, Any], ...]]


def compare(now: Snapshot, was: Snapshot | None, basis: Basis = "baseline") -> Comparison:
    """Hold `now` against `was`; without a `was` the comparison carries the snapshot alone."""
    if was is None:
        return Comparison(now=now)
    was = _marked(was, basis)
    unlike = _unlike(now, was)
    deltas = _deltas(now, was)
    gaps = [] if deltas else [_no_numbers(now, was)]
    return Comparison(
        now=now,
        was=was,
        basis=basis,
        deltas=deltas,
        drifts=_drifts(now, was),
        unlike=unlike,
        fresh=_fresh(now, was),
        gaps=tuple(gaps),
    )


def _marked(was: Snapshot, basis: Basis) -> Snapshot:
    """The baseline with its lines marked as such: beside the host's own they would read like them."""

    def mark(e: Evidence | None) -> Evidence | None:
        return None if e is None else replace(e, source=f"{basis}: {e.source}")

    def marked(s: Setting) -> Setting:
        return replace(s, evidence=mark(s.evidence))

    return replace(
        was,
        settings={k: marked(s) for k, s in was.settings.items()},
        asked={k: marked(s) for k, s in was.asked.items()},
        signals=tuple(
            replace(s, evidence=replace(s.evidence, source=f"{basis}: {s.evidence.source}")) for s in was.signals
        ),
        samples=tuple(replace(s, evidence=mark(s.evidence)) for s in was.samples),
    )


# -- numbers ----------------------------------------------------------------------------------------------------------


def _deltas(now: Snapshot, was: Snapshot) -> tuple[Delta, ...]:
    mine, theirs = _grouped(now.samples), _grouped(was.samples)
    found = []
    for key, after in mine.items():
        before = theirs.get(key) or _nearly_alike(key, mine, theirs)
        if not before or key[0] not in METRICS or _other_lengths(before, after):
            continue
        judged = judge(key[0], before, after)
        found.append(
            Delta(
                metric=key[0], was=judged.was, now=judged.now, verdict=judged.verdict, workload=key[1],
                concurrency=key[2], factor=judged.factor, low=judged.low, high=judged.high, n_was=judged.n_was,
                n_now=judged.n_now, p=judged.p, paired=judged.paired, note=judged.note,
                evidence=lines([after[0].evidence, before[0].evidence]),
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda d: (d.workload is None, d.metric, d.concurrency or 0)))


def _other_lengths(was: list[Sample], now: list[Sample]) -> bool:
    """Whether the prompts or answers of the two runs were on average of quite other lengths, whatever was asked for."""
    for name in MEANS:
        before, after = _mean(was, name), _mean(now, name)
        if before is not None and after is not None and not FAR <= after / before <= 1 / FAR:
            return True
    return False


def _mean(samples: list[Sample], name: str) -> float | None:
    found = [s.conditions[name] for s in samples if _number(s.conditions.get(name))]
    return float(median(found)) if found else None


def _grouped(samples: Iterable[Sample]) -> dict[Key, list[Sample]]:
    groups: dict[Key, list[Sample]] = {}
    for s in samples:
        alike = (*ASKED, "max_tokens") if s.metric in BY_ANSWER else ASKED
        asked = tuple((k, _hashable(s.conditions[k])) for k in alike if s.conditions.get(k) is not None)
        concurrency = None if s.concurrency is None else float(round(s.concurrency))
        # a per-prompt value and a value of the whole round are two different numbers
        groups.setdefault((s.metric, s.workload, concurrency, (*asked, ("each", s.prompt is not None))), []).append(s)
    return groups


def _nearly_alike(key: Key, mine: Mapping[Key, Any], theirs: Mapping[Key, list[Sample]]) -> list[Sample] | None:
    """Their only group that differs in nothing but lengths or rates close to these: 947 tokens against 1,000, say."""
    near = [k for k in theirs if k not in mine and k[:3] == key[:3] and _close(dict(k[3]), dict(key[3]))]
    return theirs[near[0]] if len(near) == 1 else None


def _close(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    if was.keys() != now.keys():
        return False
    return all(
        was[k] == now[k]
        or (k in LENGTHS and _number(was[k]) and _number(now[k]) and CLOSE <= was[k] / now[k] <= 1 / CLOSE)
        for k in was
    )


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool)) else str(value)


def _no_numbers(now: Snapshot, was: Snapshot) -> Gap:
    if not now.samples:
        return Gap("numbers", "no speed of this server was measured or logged: nothing to hold against the baseline")
    if not was.samples:
        return Gap("numbers", "the baseline holds no numbers")
    return Gap("numbers", f"no workload in common: {_workloads(now)} here, {_workloads(was)} in the baseline")


def _workloads(snapshot: Snapshot) -> str:
    named = {(s.workload or "served traffic", s.concurrency) for s in snapshot.samples if s.concurrency}
    names = sorted(f"{workload} at {concurrency:g}" for workload, concurrency in named)
    return ", ".join(names[:4]) or "none"


# -- settings ---------------------------------------------------------------------------------------------------------


def _drifts(now: Snapshot, was: Snapshot) -> tuple[Drift, ...]:
    found = [
        *_setting_drifts(now, was),
        *_named("engine", {"name": was.engine, "version": was.version}, {"name": now.engine, "version": now.version}),
        *_named("package", was.packages, now.packages),
        *_named("gpu", _gpu_facts(was), _gpu_facts(now)),
        *_named("host", _host_facts(was), _host_facts(now)),
    ]
    return tuple(sorted(found, key=lambda d: (-settings.speed_weight(d.key), d.key)))


def _setting_drifts(now: Snapshot, was: Snapshot) -> list[Drift]:
    found = []
    for key in {**was.settings, **now.settings}:
        before, after = was.settings.get(key), now.settings.get(key)
        if before is None or after is None:
            # a setting only one side speaks of differs only when both sides would have spoken of it
            one = before or after
            if one is not None and _would_say(key, now if after is None else was, one):
                found.append(Drift(key, before, after))
        elif not settings.alike(key, before.value, after.value) or _automatic(key, before, after):
            found.append(Drift(key, before, after))
    return found


def _automatic(key: str, was: Setting, now: Setting) -> bool:
    """Whether a variable that was given a value is left to the engine now, or the reverse; both said by the engine."""
    if not key.startswith("env.") or was.said != "effective" or now.said != "effective":
        return False
    return str(was.value) != str(now.value)


def _would_say(key: str, silent: Snapshot, one: Setting) -> bool:
    """Whether the silent side would have told had it been set: the same kind of source was read there."""
    if one.said != "asked":
        return _listed(one) and any(_listed(s) for s in silent.settings.values())
    row = settings.SETTINGS.get(key)
    if row is not None and silent.engine in ENGINES and not row.spellings(silent.engine):
        return False  # a knob that the other engine does not have
    if key.startswith("env."):
        return any(k.startswith("env.") for k in silent.settings) or "environ" in silent.sources
    if key.startswith("other."):
        return any(k.startswith("other.") for k in silent.settings)
    return bool(silent.asked)


def _listed(s: Setting) -> bool:
    """Whether it was told in SGLang's list of all its arguments, which leaves out nothing that has a value."""
    return s.said == "effective" and s.evidence is not None and ARGUMENTS in s.evidence.text


def _named(family: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> list[Drift]:
    """Facts that are no engine settings but read like them. Only what both sides know can differ."""
    both = (k for k in was if was[k] is not None and now.get(k) is not None and str(was[k]) != str(now[k]))
    return [
        Drift(name, Setting(name, was[k], "effective"), Setting(name, now[k], "effective"))
        for k in both
        for name in (f"{family}.{k}",)
    ]


def _gpu_facts(s: Snapshot) -> dict[str, Any]:
    names = s.gpu_names()
    facts: dict[str, Any] = {"driver": s.host.get("driver_version")}
    if names:
        facts |= {"name": ", ".join(sorted(set(names))), "count": len(names)}
    for key in GPU_CONDITIONS:
        values = s.gpu(key, load=None)
        if values:
            facts[key] = _common([v for vs in values.values() for v in vs if isinstance(v, (int, float, str))])
    return facts


def _common(values: list[Any]) -> Any:
    if not values:
        return None
    if all(isinstance(v, (int, float)) for v in values):
        return round(float(median(values)), 1)
    return max(set(map(str, values)), key=[str(v) for v in values].count)


def _host_facts(s: Snapshot) -> dict[str, Any]:
    keys = ("uname", "virt", "cpu_model", "cpus", "sockets", "governor", "bios", "cuda_version", "image")
    facts = {k: s.host[k] for k in keys if s.host.get(k) is not None}
    cgroup = s.host.get("cgroup")
    if isinstance(cgroup, Mapping) and cgroup.get("cpu_max") is not None:
        facts["cgroup.cpu_max"] = cgroup["cpu_max"]
    return facts


def _unlike(now: Snapshot, was: Snapshot) -> tuple[str, ...]:
    """Hardware that differs: then no regression of the software can be shown."""
    found = []
    here, there = now.gpu_names(), was.gpu_names()
    if here and there and set(here) != set(there) and not any("MIG" in n for n in (*here, *there)):
        found.append(f"GPU: {', '.join(sorted(set(here)))} here, {', '.join(sorted(set(there)))} in the baseline")
    return tuple(found)


# -- warnings ---------------------------------------------------------------------------------------------------------


def _fresh(now: Snapshot, was: Snapshot) -> tuple[Signal, ...]:
    known = {(s.id, s.template) for s in was.signals}
    return tuple(s for s in now.signals if s.level in LEVELS and (s.id, s.template) not in known)
