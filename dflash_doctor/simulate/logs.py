"""The engine's log: the text of its start, and the lines it writes about what it serves, in the real formats."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from dflash_doctor.simulate.prometheus import accept_rate
from dflash_doctor.simulate.scenario import Raw, Scenario
from dflash_doctor.simulate.serving import Step
from dflash_doctor.simulate.tally import Sums, Tally

Write = Callable[[str], None]

# $name or ${name} in the texts of a scenario
PLACEHOLDER = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
# $t12: the engine's time stamp 12 s after the start
STAMP = re.compile(r"\$t(\d+)\b")

API, CORE = 2101, 2240  # process ids in log lines and in the made-up /proc


def worker_pid(rank: int) -> int:
    return CORE + 11 + rank


def stamp(engine: str, when: float) -> str:
    """vLLM writes no year, SGLang writes no level; both write local time."""
    return time.strftime("%m-%d %H:%M:%S" if engine == "vllm" else "%Y-%m-%d %H:%M:%S", time.localtime(when))


def start_text(scenario: Scenario, started: float, port: int) -> str:
    """What the engine wrote while it came up, or until it failed."""
    pieces = list(scenario.log.start.values())
    pieces += [scenario.fails.text] if scenario.fails else list(scenario.log.ready.values())
    known = values(scenario, port)

    def said(found: re.Match[str]) -> str:
        return stamp(scenario.engine, started + int(found[1]))

    text = "".join(STAMP.sub(said, str(fill(piece.rstrip("\n"), known))) + "\n" for piece in in_time(pieces) if piece)
    return scenario.log.before + text


def in_time(pieces: list[str]) -> list[str]:
    """Sorted by the first time stamp of each, so that a piece added by a scenario finds its place."""
    keyed, at = [], 0
    for piece in pieces:
        found = STAMP.search(piece)
        at = int(found[1]) if found else at  # one without a stamp stays behind the one before
        keyed.append((at, piece))
    return [piece for _, piece in sorted(keyed, key=lambda k: k[0])]


def fill(value: Any, known: Mapping[str, Any]) -> Any:
    """Every $name replaced that is known; a text that is one name alone becomes its value, number or not."""
    if isinstance(value, Mapping):
        return {k: fill(v, known) for k, v in value.items()}
    if isinstance(value, list):
        return [fill(v, known) for v in value]
    if not isinstance(value, str):
        return value
    whole = PLACEHOLDER.fullmatch(value)
    if whole and (whole[1] or whole[2]) in known:
        return known[whole[1] or whole[2]]
    text = PLACEHOLDER.sub(lambda m: str(known.get(m[1] or m[2], m[0])), value)
    return Raw(text) if isinstance(value, Raw) else text


def facts(scenario: Scenario, port: int) -> dict[str, Any]:
    """The names that a scenario's texts may use, without those made of its settings."""
    s = scenario
    ranks: dict[str, Any] = {f"worker{rank}": worker_pid(rank) for rank in range(s.tp)}
    ranks |= {f"rank{rank}": rank_name(s, rank) for rank in range(s.tp)}
    return {
        "model": s.model.path, "served": s.model.name, "version": s.version, "port": port, "tp": s.tp,
        "context": s.model.context, "context_commas": f"{s.model.context:,}", "max_seqs": s.max_seqs,
        "max_tokens": s.max_tokens, "kv_tokens": s.kv_tokens, "kv_tokens_commas": f"{s.kv_tokens:,}",
        "kv_times": f"{s.kv_tokens / s.model.context:.2f}", "api": API, "core": CORE,
        "depth": s.acceptance.depth if s.acceptance else 0, **ranks,
    }  # fmt: skip


def rank_name(scenario: Scenario, rank: int) -> str:
    """How a worker's log lines name it: `Worker_TP0`, or ` TP0` behind the time; a lone one has no number."""
    if scenario.engine == "vllm":
        return f"Worker_TP{rank}" if scenario.tp > 1 else "Worker"
    return f" TP{rank}" if scenario.tp > 1 else ""


def effective(scenario: Scenario, port: int) -> dict[str, Any]:
    """What the engine resolved, as Python values."""
    known = facts(scenario, port)
    return {k: fill(v, known) for k, v in scenario.effective.items()}


def values(scenario: Scenario, port: int) -> Mapping[str, Any]:
    """Everything that the names in the texts stand for."""
    resolved = effective(scenario, port)
    known = facts(scenario, port) | {"args": non_default_args(scenario, port)}
    if scenario.engine == "vllm":
        known["config"] = vllm_config(resolved)
    else:
        known["server_args"] = ", ".join(f"{k}={v!r}" for k, v in (resolved | {"port": port}).items())
    return known | scenario.log.values


def non_default_args(scenario: Scenario, port: int) -> str:
    """vLLM: `{'model_tag': '…', 'model': '…', 'tensor_parallel_size': 2, …}`."""
    args: dict[str, Any] = {"model_tag": scenario.model.path, "port": port, "model": scenario.model.path}
    for flag, value in scenario.flags.items():
        if flag == "port" or value is False:
            continue
        # --no-enable-x stores False under enable_x
        name, value = (flag[3:], False) if flag.startswith("no-") and value is True else (flag, value)
        args[name.replace("-", "_")] = value
    return repr(args)


def vllm_config(resolved: Mapping[str, Any]) -> str:
    """vLLM: `model='…', speculative_config=None, …`: only model and tokenizer are quoted, dicts are reprs."""
    quoted = {"model", "tokenizer"}
    return ", ".join(f"{k}={v!r}" if k in quoted else f"{k}={v}" for k, v in resolved.items())


class Lines:
    """Writes the running engine's lines as steps are served; `at` is wall-clock time."""

    def __init__(self, scenario: Scenario, tally: Tally, write: Write, since: float) -> None:
        self.scenario, self.tally = scenario, tally
        self._write = write
        self._said, self._said_at = tally.sums, since
        self._prefill_at = since
        self._quiet = True  # vLLM: an interval of silence after one of silence is not worth a line
        self.last = Sums()
        self.tok_s = 0.0

    def step(self, step: Step, end: float) -> None:
        """After each step (SGLang)."""
        if self.scenario.engine != "sglang":
            return
        if step.prefill_tokens:
            self._prefill(step, end)
        if step.decoded and (self.tally.sums.decode_steps - self._said.decode_steps) >= self.scenario.log.decode_steps:
            self._decode(step, end)

    def tick(self, now: float) -> None:
        """Every interval (vLLM)."""
        if self.scenario.engine != "vllm":
            return
        t, seconds = self.tally, max(now - self._said_at, 1e-9)
        use = 100 * t.kv_used / self.scenario.kv_tokens
        grown = t.sums.since(self._said)
        self._said, self._said_at = t.sums, now
        quiet = not (grown.generated or grown.computed)
        if quiet and self._quiet:
            return
        self._quiet = quiet
        head = f"(APIServer pid={API}) INFO {stamp('vllm', now)} "
        hits = 100 * t.sums.hits / t.sums.queries if t.sums.queries else 0.0
        preempted = f"Preemptions: {grown.preemptions}, " if grown.preemptions else ""
        # (APIServer pid=2101) INFO 05-06 10:15:27 [loggers.py:271] Engine 000: Avg prompt throughput: 3.1 tokens/s, …
        self._write(
            f"{head}[loggers.py:271] Engine 000: Avg prompt throughput: {grown.computed / seconds:.1f} tokens/s, "
            f"Avg generation throughput: {grown.generated / seconds:.1f} tokens/s, Running: {t.running} reqs, "
            f"Waiting: {t.waiting} reqs, {preempted}GPU KV cache usage: {use:.1f}%, "
            f"Prefix cache hit rate: {hits:.1f}%\n"
        )
        if not grown.drafts:
            return
        drafted = grown.drafts * t.depth
        rates = ", ".join(f"{n / grown.drafts:.3f}" for n in grown.per_position)
        self._write(
            f"{head}[metrics.py:101] SpecDecoding metrics: Mean acceptance length: "
            f"{1 + grown.accepted / grown.drafts:.2f}, Accepted throughput: {grown.accepted / seconds:.2f} tokens/s, "
            f"Drafted throughput: {drafted / seconds:.2f} tokens/s, Accepted: {grown.accepted} tokens, "
            f"Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, "
            f"Avg Draft acceptance rate: {100 * grown.accepted / drafted:.1f}%\n"
        )

    def request(self, now: float, client_port: int, method: str, path: str, status: str) -> None:
        """The access line of the HTTP server."""
        line = f'INFO:     127.0.0.1:{client_port} - "{method} {path} HTTP/1.1" {status}\n'
        prefix = f"(APIServer pid={API}) " if self.scenario.engine == "vllm" else f"[{stamp('sglang', now)}] "
        self._write(prefix + line)

    def _prefill(self, step: Step, end: float) -> None:
        # [2026-12-01 04:55:07 TP0] Prefill batch, #new-seq: 1, #new-token: 61, #cached-token: 0, token usage: 0.00, …
        speed = step.prefill_tokens / max(end - self._prefill_at, 1e-9)
        self._prefill_at = end
        self._write(
            f"{self._rank(end)}Prefill batch, #new-seq: {step.new_seqs}, #new-token: {step.prefill_tokens}, "
            f"#cached-token: {step.cached_tokens}, token usage: {step.kv_used / self.scenario.kv_tokens:.2f}, "
            f"#running-req: {step.running - step.new_seqs}, #queue-req: {step.waiting}, #pending-token: 0, "
            f"cuda graph: False, input throughput (token/s): {speed:.2f}\n"
        )

    def _decode(self, step: Step, end: float) -> None:
        # [2026-05-04 17:55:02 TP0] Decode batch, #running-req: 1, #token: 812, token usage: 0.00, accept len: 3.20, …
        grown = self.tally.sums.since(self._said)
        self.last, self.tok_s = grown, grown.generated / max(end - self._said_at, 1e-9)
        self._said, self._said_at = self.tally.sums, end
        accept = ""
        if grown.drafts:
            length = 1 + grown.accepted / grown.drafts
            accept = f"accept len: {length:.2f}, accept rate: {accept_rate(self.scenario, length):.2f}, "
        self._write(
            f"{self._rank(end)}Decode batch, #running-req: {step.decoded}, #token: {step.kv_used}, "
            f"token usage: {step.kv_used / self.scenario.kv_tokens:.2f}, {accept}"
            f"cuda graph: {self.scenario.log.graph}, gen throughput (token/s): {self.tok_s:.2f}, "
            f"#queue-req: {step.waiting}\n"
        )

    def _rank(self, when: float) -> str:
        return f"[{stamp('sglang', when)}{rank_name(self.scenario, 0)}] "
