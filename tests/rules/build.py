"""Snapshots and comparisons for rule tests, in few words. Evidence texts are real lines, shortened."""

from __future__ import annotations

from dataclasses import replace

from dflash_doctor.compare import compare
from dflash_doctor.model import (
    Comparison,
    Counter,
    Evidence,
    Finding,
    GpuReading,
    Interval,
    Sample,
    Setting,
    Signal,
    Snapshot,
)
from dflash_doctor.rules import module


def snapshot(engine: str = "vllm", **more) -> Snapshot:
    """A snapshot with settings given as a mapping of key -> value (said: effective) and lists of the rest."""
    settings = {
        k: v if isinstance(v, Setting) else Setting(k, v, "effective") for k, v in more.pop("settings", {}).items()
    }
    asked = {k: s for k, s in settings.items() if s.said == "asked"} | more.pop("asked", {})
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in more.items()}
    return Snapshot(name="host", engine=engine, settings=settings, asked=asked, **fields)


def signal(
    id: str, text: str = "", level: str = "WARNING", line: int = 1, topics: tuple[str, ...] = (), **fields
) -> Signal:
    """One understood log line."""
    return Signal(id, Evidence("server.log", text or id, line), level, fields, topics, template=text or id)


def steps(running: float = 1, tok_s: float = 50.0, **more) -> Interval:
    """One steady logging interval of decoding."""
    return Interval(
        line=more.pop("line", 10),
        time=None,
        running=running,
        generation_tok_s=tok_s,
        text=more.pop("text", "Engine 000: …"),
        **more,
    )


def card(index: int = 0, load: bool | None = True, **values) -> GpuReading:
    """One reading of a GPU; keys are written with _ for . (clocks_sm=…), the rest has a healthy card's values."""
    healthy = {
        "name": "NVIDIA RTX A6000", "clocks.sm": 1800, "clocks.max.sm": 2100, "clocks_event_reasons.active": "0x0",
        "power.draw": 250.0, "power.limit": 300.0, "power.default_limit": 300.0, "temperature.gpu": 70,
        "utilization.gpu": 95, "memory.used": 40000, "memory.total": 49140, "pcie.link.gen.current": 4,
        "pcie.link.gen.max": 4, "pcie.link.width.current": 16, "pcie.link.width.max": 16,
    }  # fmt: skip
    keyed = {k.replace("__", "\0").replace("_", ".").replace("\0", "_"): v for k, v in values.items()}
    return GpuReading(index, 0.0, load, healthy | keyed)


def speed(
    value: float, concurrency: float = 1, metric: str = "output_tok_s", workload: str | None = "chat", **conditions
) -> Sample:
    """One lone measured value."""
    return Sample(metric, value, workload=workload, concurrency=concurrency, conditions=conditions)


def grown(name: str, value: float, kind: str = "growth") -> Counter:
    """One counter's growth over the load."""
    return Counter(name, value, kind)


def held(now: Snapshot, was: Snapshot | None = None) -> Comparison:
    """The comparison of two snapshots, or a lone one."""
    return compare(now, was)


def found(cause: str, now: Snapshot, was: Snapshot | None = None) -> Finding | None:
    """What the rule of a cause says."""
    finding = module(cause).check(held(now, was))
    return None if finding is None else replace(finding, cause=cause)
