"""Real logs for the log tests, whole or in parts."""

from __future__ import annotations

from pathlib import Path

from dflash_doctor.model import Facts, Sample, Signal
from dflash_doctor.parsers import logs

FOLDER = Path(__file__).parent / "logs"


def log(name: str) -> str:
    """The text of tests/logs/<name>.log."""
    return (FOLDER / f"{name}.log").read_text(encoding="utf-8")


def read(text: str) -> Facts:
    return logs.parse(text, "server.log")


def settings(facts: Facts, said: str | None = "effective") -> dict[str, object]:
    return {s.key: s.value for s in facts.settings if said is None or s.said == said}


def ids(facts: Facts, *levels: str) -> list[str]:
    return [s.id for s in facts.signals if not levels or s.level in levels]


def one(facts: Facts, id: str) -> Signal:
    found = [s for s in facts.signals if s.id == id]
    assert len(found) == 1, found
    return found[0]


def values(facts: Facts, metric: str, concurrency: float | None = None) -> list[float]:
    rows: list[Sample] = [s for s in facts.samples if s.metric == metric]
    return [round(s.value, 4) for s in rows if concurrency is None or s.concurrency == concurrency]


def vllm_line(body: str, at: str = "11-23 09:14:07", level: str = "INFO", who: str = "APIServer pid=1") -> str:
    return f"({who}) {level} {at} [core.py:100] {body}\n"


def sglang_line(body: str, at: str = "2026-11-23 09:14:07", rank: str = "") -> str:
    return f"[{at}{' ' + rank if rank else ''}] {body}\n"


def stats(gen: float, running: int, at: str, prompt: float = 0.0, waiting: int = 0, engine: str = "000") -> str:
    return vllm_line(
        f"Engine {engine}: Avg prompt throughput: {prompt} tokens/s, Avg generation throughput: {gen} tokens/s, "
        f"Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 40.0%",
        f"11-23 {at}",
    )
