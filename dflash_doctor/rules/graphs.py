"""What the rules of the cudagraph family ask: which batches the captured graphs cover."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from dflash_doctor.model import Interval, Snapshot

# how much of a decode step replays as one graph
ORDER = {"none": 0, "piecewise": 1, "full_decode_only": 2, "full": 2, "full_and_piecewise": 3}


def sizes(s: Snapshot) -> tuple[int, ...]:
    """Captured sizes as the engine counts them (tokens in vLLM, requests in SGLang), ascending."""
    value = s.value("cudagraph.sizes")
    if isinstance(value, (list, tuple)):
        return tuple(sorted(int(v) for v in value if isinstance(v, (int, float))))
    return ()


def tokens_per_request(s: Snapshot) -> int:
    """Tokens one request puts into a decode step: 1, or the draft block and the bonus token (vLLM counts tokens)."""
    depth = s.value("spec.depth")
    drafting = s.value("spec.method") not in (None, "none")
    return 1 + int(depth) if drafting and s.engine == "vllm" and isinstance(depth, (int, float)) else 1


def covered(s: Snapshot) -> int | None:
    """The most running requests that decode in a graph; None when the captured sizes are not known.

    vLLM captures full decode graphs for sizes up to max_num_seqs requests; a limit between two sizes leaves the
    batches above the smaller one without (vllm/v1/worker/gpu_model_runner.py).
    """
    captured = sizes(s)
    if not captured:
        top = s.value("cudagraph.max_size")
        return int(top) // tokens_per_request(s) if isinstance(top, (int, float)) else None
    width = tokens_per_request(s)
    limit = s.value("sched.max_seqs")
    if isinstance(limit, (int, float)) and not isinstance(limit, bool):
        within = [x for x in captured if x <= limit * width]
        if within and limit * width <= captured[-1]:
            return within[-1] // width
    return captured[-1] // width


def batches(s: Snapshot) -> dict[int, list[Interval]]:
    """Steady decode intervals by running requests of one engine."""
    found: dict[int, list[Interval]] = {}
    for i in s.intervals:
        if i.steady and i.kind != "prefill" and i.running:
            found.setdefault(round(i.running), []).append(i)
    return found


def speed_by_batch(s: Snapshot) -> dict[int, float]:
    """Median generation speed by running requests, in tok/s of the whole engine."""
    return {
        n: float(median(x.generation_tok_s for x in rows if x.generation_tok_s))
        for n, rows in sorted(batches(s).items())
        if any(x.generation_tok_s for x in rows)
    }


def measured(s: Snapshot) -> dict[str, dict[int, float]]:
    """Output speed by requests at once, workload by workload, as a client measured it."""
    found: dict[str, dict[int, list[float]]] = {}
    for x in s.samples:
        if x.metric == "output_tok_s" and x.workload and x.prompt is None and x.concurrency:
            found.setdefault(x.workload, {}).setdefault(round(x.concurrency), []).append(x.value)
    return {w: {n: float(median(v)) for n, v in sorted(rows.items())} for w, rows in found.items()}


def cliff(s: Snapshot) -> tuple[int, int, float] | None:
    """The sharpest fall of the engine's whole speed as more requests run: (below, above, factor), under 0.85 only."""
    sides = [_cliff(speeds) for speeds in (speed_by_batch(s), *measured(s).values())]
    return min((f for f in sides if f is not None), key=lambda f: f[2], default=None)


def _cliff(by_batch: dict[int, float]) -> tuple[int, int, float] | None:
    speeds = sorted(by_batch.items())
    falls = [(a, b, sb / sa) for (a, sa), (b, sb) in pairwise(speeds) if sb < 0.85 * sa]
    return min(falls, key=lambda f: f[2]) if falls else None
