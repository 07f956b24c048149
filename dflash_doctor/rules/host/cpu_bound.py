"""The CPU side limits decode: slow or few cores, a quota, a governor, offloading, Python work per token.

## What it sees
The GPUs wait (low utilisation and power under load) while a process of the engine uses a whole core, the cgroup is
throttled, the CPU is clearly slower or fewer than the baseline's, or weights or KV live in host memory.

## Why it costs you
Between two GPU steps the CPU schedules, launches, samples and detokenises. When that takes longer than the step, the
GPU idles and its speed no longer matters.

## How to confirm
`top -H -p PID` of the engine process at 100 % with the GPU under 60 %; `cat /sys/fs/cgroup/cpu.stat` for throttling.

## What usually did it
A container CPU limit; `powersave` governor; a move to another CPU or into a virtual machine; thread pools sized for the
host and not for the quota; requests that ask for work on the CPU (vocabulary-sized logprobs, grammars).

## When it is wrong
One core at 100 % is normal for an engine that polls. A GPU that waits for requests is idle, not starved: look whether
requests run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dflash_doctor.model import Comparison, Evidence, Finding, Snapshot
from dflash_doctor.physics import PREFILL, QUEUE, STEP
from dflash_doctor.rules.cards import loaded, numbers, reading_lines
from dflash_doctor.rules.seen import new_about, proof, proofs

WAITING = 60.0  # per cent utilisation under load below which the GPU waits for something
STARVED = 0.7  # of the baseline's power or utilisation: the card does clearly less
THREADS = ("env.VLLM_CPU_OMP_THREADS_BIND", "env.SGLANG_CPU_OMP_THREADS_BIND", "env.OMP_NUM_THREADS")
THROTTLED = 0.1  # share of scheduler periods in which the quota ran out


def check(c: Comparison) -> Finding | None:
    throttled = _throttled(c.now)
    if c.was is not None and (_throttled(c.was) or 0) > THROTTLED:
        throttled = None
    starved = _starved(c)
    slower_host = _slower_host(c)
    offload = new_about(c, "offload_on")
    whole_core = _whole_core(c.now)
    # another number of ranks divides the cores anew
    threads = () if c.drift("parallel.*") else c.drift(*THREADS)
    on_cpu = c.now.value("host.device") == "cpu"  # then the CPU's threads are the accelerator
    said = [s for s in new_about(c, "cpu_contention", "host_bound", "gc_pause") if s.level == "WARNING"]
    signs = [bool(throttled and throttled > THROTTLED), bool(slower_host), bool(offload), starved and whole_core]
    shown = any(signs) and (bool(starved) or (throttled or 0) > THROTTLED or bool(offload))
    if not shown and not (slower_host and c.slower) and not (threads and c.slower):
        return None
    confidence = 0.4
    confidence += (
        0.35 * ((throttled or 0) > THROTTLED)
        + 0.25 * bool(starved)
        + 0.2 * bool(slower_host)
        + 0.15 * bool(offload)
        + 0.1 * whole_core
        + (0.35 if on_cpu else 0.1) * bool(threads)
    )
    words = []
    if throttled and throttled > THROTTLED:
        words.append(f"the CPU quota runs out in {throttled:.0%} of the scheduler's periods")
    if slower_host:
        words.append(slower_host)
    if starved:
        words.append(starved)
    if offload:
        words.append("part of weights or KV lives in host memory")
    words += [d.words().removeprefix("env.") for d in threads[:1]]
    return Finding(
        cause="",
        summary="the CPU side is the limit: "
        + "; ".join(words or ["one process uses a whole core while the GPUs wait"]),
        confidence=min(confidence, 0.9),
        severity="warning",
        evidence=(
            *_host_lines(c.now),
            *reading_lines(loaded(c.now), "utilization.gpu", "power.draw"),
            *proofs((*offload, *said)[:2]),
            *proof(*c.drift("host.cpu_model", "host.cgroup.cpu_max", "host.governor")),
        ),
        next_steps=_steps(throttled, offload=bool(offload)),
        touches=(STEP, PREFILL, QUEUE),
    )


def _throttled(s: Snapshot) -> float | None:
    cgroup = s.host.get("cgroup")
    if not isinstance(cgroup, Mapping):
        return None
    periods, hit = cgroup.get("nr_periods"), cgroup.get("nr_throttled")
    if not isinstance(periods, (int, float)) or not isinstance(hit, (int, float)) or periods < 10:
        return None
    return float(hit) / float(periods)


def _starved(c: Comparison) -> str:
    """Words for GPUs that wait under load; empty when they do not."""
    now = numbers(loaded(c.now), "utilization.gpu")
    if not now:
        return ""
    low = min(now.values())
    was = numbers(loaded(c.was), "utilization.gpu") if c.was else {}
    power_now, power_was = numbers(loaded(c.now), "power.draw"), numbers(loaded(c.was), "power.draw") if c.was else {}
    less_power = any(power_now[i] < STARVED * power_was[i] for i in power_now if i in power_was)
    if was:
        return (
            f"the GPUs wait ({low:.0f} % busy, {min(was.values()):.0f} % when tuned)"
            if (low < STARVED * min(was.values()) and less_power) or low < STARVED * min(was.values())
            else ""
        )
    return f"the GPUs wait ({low:.0f} % busy under load)" if low < WAITING else ""


def _slower_host(c: Comparison) -> str:
    """Words for a host that differs for the worse; empty when it does not."""
    cpu, virt = c.drift("host.cpu_model"), c.drift("host.virt", "host.governor", "host.cgroup.cpu_max")
    cores = c.drift("host.cpus")
    words = [d.words().removeprefix("host.") for d in (*cpu, *(d for d in cores if _fewer(d)), *virt)]
    return "; ".join(words[:3])


def _fewer(d: Any) -> bool:
    return bool(
        d.was
        and d.now
        and isinstance(d.was.value, (int, float))
        and isinstance(d.now.value, (int, float))
        and d.now.value < d.was.value
    )


def _whole_core(s: Snapshot) -> bool:
    return any(p.get("cpu_percent", 0) >= 95 for p in _processes(s) if isinstance(p.get("cpu_percent"), (int, float)))


def _processes(s: Snapshot) -> tuple[Mapping[str, Any], ...]:
    rows = s.host.get("processes")
    return tuple(p for p in rows if isinstance(p, Mapping)) if isinstance(rows, (list, tuple)) else ()


def _host_lines(s: Snapshot) -> tuple[Evidence, ...]:
    found = []
    if isinstance(s.host.get("cgroup"), Mapping):
        found.append(Evidence("host.json", f"cgroup: {dict(s.host['cgroup'])}"))
    found += [
        Evidence("host.json", f"process {p.get('role') or p.get('name')}: {p['cpu_percent']} % of a core")
        for p in _processes(s)
        if p.get("cpu_percent")
    ]
    return tuple(found[:3])


def _steps(throttled: float | None, *, offload: bool) -> tuple[str, ...]:
    steps = ["top -H -p PID  # of the engine process, while a request runs"]
    if throttled and throttled > THROTTLED:
        steps.insert(0, "raise the container's CPU limit, or set OMP_NUM_THREADS to it")
    if offload:
        steps.append("keep weights and KV on the GPU: lower the context or add a card")
    steps.append("cpupower frequency-set -g performance  # if the governor is not")
    return tuple(steps)
