"""Our rounds in the form of `vllm bench serve --save-result`, for dashboards that read that (field names of 0.33).

Times between chunks (`itl`) are left out: that file has one for each chunk, we keep their median of each request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median, pstdev
from typing import Any

from dflash_doctor.formats.load import LoadFile, Request, Round

TIMES: dict[str, Callable[[Request], float | None]] = {
    "ttft": lambda r: r.ttft_ms,
    "tpot": lambda r: r.tpot_ms,
    "e2el": lambda r: r.e2e_ms,
}


def vllm_bench(file: LoadFile) -> list[dict[str, Any]]:
    """One result for each round."""
    return [_result(file, r) for r in file.rounds]


def _result(file: LoadFile, r: Round) -> dict[str, Any]:
    well = [q for q in r.requests if q.status == "ok"]
    seconds = r.wall_ms / 1000
    read, made = sum(q.input_tokens or 0 for q in well), sum(q.output_tokens or 0 for q in well)
    found: dict[str, Any] = {
        "date": file.started_at, "backend": "openai-chat" if "chat" in file.api else "openai",
        "label": f"{r.workload}-{r.version}", "model_id": file.model, "tokenizer_id": file.model,
        "num_prompts": len(r.requests), "request_rate": "inf", "burstiness": 1.0, "max_concurrency": r.concurrency,
        "duration": seconds, "completed": len(well), "failed": len(r.requests) - len(well),
        "total_input_tokens": read, "total_output_tokens": made,
    }  # fmt: skip
    if seconds > 0:
        found |= {
            "request_throughput": len(well) / seconds, "output_throughput": made / seconds,
            "total_token_throughput": (read + made) / seconds,
        }  # fmt: skip
    for name, value in TIMES.items():
        found |= _spread(name, [v for q in well if (v := value(q)) is not None])
    s = r.server
    if s is not None and s.accept_length is not None:
        found["spec_decode_acceptance_length"] = s.accept_length
        if s.per_position:
            found["spec_decode_per_position_acceptance_rates"] = list(s.per_position)
    return found | {
        "input_lens": [q.input_tokens or 0 for q in r.requests],
        "output_lens": [q.output_tokens or 0 for q in r.requests],
        "ttfts": [(q.ttft_ms or 0.0) / 1000 for q in r.requests],
        "errors": [q.error or "" for q in r.requests],
    }


def _spread(name: str, values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    last = sorted(values)[min(len(values) - 1, int(0.99 * len(values)))]
    return {
        f"mean_{name}_ms": fmean(values), f"median_{name}_ms": median(values), f"std_{name}_ms": pstdev(values),
        f"p99_{name}_ms": last,
    }  # fmt: skip
