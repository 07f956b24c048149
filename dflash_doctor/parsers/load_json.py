"""load.json: load rounds, ours or any known tool's; one JSON value, a list of them, or one a line.

{"schema": "dflash-doctor/load/1", "rounds": […]}                       load_rounds.py
{"backend": "vllm", "request_throughput": 0.14, "mean_ttft_ms": …}      serving_bench.py: vLLM, SGLang
{"benchmarks": [{"metrics": {…}}]}                                      guidellm.py
{"time_to_first_token": {"avg": …, "unit": "ms"}, …}                    aiperf.py: AIPerf, GenAI-Perf, genai-bench
[{"workload": "chat", "concurrency": 1, "output_tok_s": 73.5}]          rows, as in load.yaml
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dflash_doctor.model import Facts, Unreadable
from dflash_doctor.parsers import aiperf, guidellm, load_rounds, load_yaml, serving_bench
from dflash_doctor.parsers.documents import read_json_lines

READS: tuple[str, ...] = ("load.json",)

TOOLS = (serving_bench.read, guidellm.read, aiperf.read)


def parse(text: str, source: str) -> Facts:
    """The samples of every result in the file. Raises Unreadable when it holds none that is known."""
    found = [_read(doc, source, line) for line, whole in read_json_lines(text, "load results") for doc in _docs(whole)]
    known = [f for f in found if f is not None]
    if not known:
        raise Unreadable("results of no tool we know (vLLM, SGLang, GuideLLM, AIPerf, genai-bench, our own rounds)")
    return Facts(
        engine=next((f.engine for f in known if f.engine), None),
        version=next((f.version for f in known if f.version), None),
        settings=next((f.settings for f in reversed(known) if f.settings), ()),
        samples=tuple(s for f in known for s in f.samples),
        host={k: v for f in known for k, v in f.host.items()},
        gaps=tuple(dict.fromkeys(g for f in known for g in f.gaps)),
    )


def _docs(whole: Any) -> Iterator[Mapping[str, Any]]:
    for doc in whole if isinstance(whole, list) else [whole]:
        if isinstance(doc, Mapping):
            yield doc


def _read(doc: Mapping[str, Any], source: str, line: int) -> Facts | None:
    ours = load_rounds.read(doc, source)
    if ours is not None:
        return ours
    for tool in TOOLS:
        found = tool(doc, source, line)
        if found is not None:
            return found
    held = next((doc[k] for k in load_yaml.HOLDERS if isinstance(doc.get(k), list)), doc)
    samples = load_yaml.rows(held, source, line)
    return Facts(samples=samples) if samples else None
