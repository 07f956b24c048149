"""Lines on the console that tell a speed, of tools that print no table.

    Throughput: 17.67 requests/s, 9048.03 total tokens/s, 4321.00 output tokens/s      vllm bench throughput
    Throughput: 17.67 requests/s, 9048.03 tokens/s                                     the same before 0.6
    Avg latency: 1.8243 seconds                                                        vllm bench latency
    Prefill. latency: 0.03148 s, throughput: 32526.81 token/s                          sglang.bench_one_batch
    Decode.  median latency: 0.00902 s, median throughput: 110.84 token/s
    acc_length=2.23                                                                    sglang send_one
    speed=116.60 token/s
    eval time = 5218.35 ms / 400 tokens (13.05 ms per token, 76.65 tokens per second)  llama.cpp

Any other line with `tok/s` is a number somebody noted, under the words before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dflash_doctor.model import Facts, Sample
from dflash_doctor.parsers.results import UNNAMED, Result, known, number


def _n(name: str) -> str:
    """A group for a number, thousands separated or not."""
    return rf"(?P<{name}>\d[\d,]{{0,14}}(?:\.\d{{1,9}})?)"


@dataclass(frozen=True)
class Form:
    """A line of one tool: its groups are metrics, `_s` at the end of a group says seconds."""

    tool: str
    workload: str
    pattern: re.Pattern[str]


FORMS = (
    Form("vllm bench throughput", "throughput", re.compile(
        rf"Throughput: {_n('req_s')} requests/s, {_n('total_tok_s')} (?:total )?tokens/s"
        rf"(?:, {_n('output_tok_s')} output tokens/s)?")),
    Form("vllm bench latency", "latency", re.compile(rf"Avg latency: {_n('e2e_seconds')} seconds")),
    Form("sglang.bench_one_batch", "one batch", re.compile(
        rf"Prefill\. {{1,4}}latency: {{1,4}}{_n('ttft_seconds')} s,"
        rf" throughput: {{1,20}}{_n('prefill_tok_s')} token/s")),
    Form("sglang.bench_one_batch", "one batch", re.compile(
        rf"Decode\. {{1,4}}median latency: {{1,4}}{_n('step_time_seconds')} s,"
        rf" median throughput: {{1,20}}{_n('output_tok_s')} token/s")),
    Form("sglang.bench_one_batch", "one batch", re.compile(
        rf"Total\. {{1,4}}latency: {{1,4}}{_n('e2e_seconds')} s, throughput: {{1,20}}{_n('total_tok_s')} token/s")),
    Form("sglang send_one", "send_one", re.compile(rf"\bacc_length={_n('accept_length')}")),
    Form("sglang send_one", "send_one", re.compile(rf"\bspeed={_n('output_tok_s')} token/s")),
    # under | Latency (s) | Tokens | Acc Length | Speed (token/s) |
    Form("sglang send_one", "send_one", re.compile(
        rf"\| {{1,20}}{_n('e2e_seconds')} {{1,20}}\| {{1,20}}\d{{1,9}} {{1,20}}"
        rf"\| {{1,20}}{_n('accept_length')} {{1,20}}\| {{1,20}}{_n('output_tok_s')} {{1,20}}\|$")),
    Form("llama.cpp timings", UNNAMED, re.compile(
        rf"prompt eval time = {{1,20}}[\d.]{{1,20}} ms / {{1,9}}\d{{1,9}} tokens \([^)]{{0,60}}, {{1,20}}"
        rf"{_n('prefill_tok_s')} tokens per second\)")),
    Form("llama.cpp timings", UNNAMED, re.compile(
        rf"eval time = {{1,20}}[\d.]{{1,20}} ms / {{1,9}}\d{{1,9}} (?:tokens|runs) {{0,4}}\([^)]{{0,60}}, {{1,20}}"
        rf"{_n('output_tok_s')} tokens per second\)")),
)  # fmt: skip
# chat, one request: 73.5 tok/s
NOTED = re.compile(rf"(?<![\d.,]){_n('value')} ?(?:tok|toks|tokens?)/s(?:ec|econd)?\b", re.I)
WORDS = 60  # characters before a noted number that name it
LONGEST = 500  # characters of a line that somebody wrote by hand


def read(lines: Sequence[tuple[int, str]], told: Mapping[str, str], source: str) -> Facts:
    """The samples of all lines: of tools that are known, else of whatever notes a rate."""
    samples = tuple(_known_tools(lines, told, source)) or tuple(_noted(lines, source))
    return Facts(samples=samples)


def _known_tools(lines: Sequence[tuple[int, str]], told: Mapping[str, str], source: str) -> Iterator[Sample]:
    asked = known(input_tokens=number(told.get("input_len")), output_tokens=number(told.get("output_len")))
    size = number(told.get("batch_size") or told.get("batch"))
    for n, line in lines:
        for form in FORMS:
            found = form.pattern.search(line)
            if found is None:
                continue
            alone = 1.0 if form.tool in ("sglang send_one", "llama.cpp timings") else size
            result = Result(form.tool, source, n, form.workload, alone, asked)
            for name, text in found.groupdict().items():
                yield from _one(result, name, _value(text), line.strip())
            break


def _one(result: Result, name: str, value: float | None, line: str) -> Iterator[Sample]:
    if value is None or (name == "accept_length" and value < 1):  # 0: nothing was drafted
        return
    if name.endswith("_seconds"):
        name, value = name.removesuffix("_seconds") + "_ms", 1000 * value
    yield from result.sample(name, value, said=line)


def _value(text: str | None) -> float | None:
    return None if text is None else number(text.replace(",", ""))


def _noted(lines: Sequence[tuple[int, str]], source: str) -> Iterator[Sample]:
    for n, line in lines:
        if "/s" not in line:
            continue
        for found in NOTED.finditer(line[:LONGEST]):
            words = line[max(0, found.start() - WORDS) : found.start()]
            # the words since the number before
            named = re.sub(r"\s+", " ", re.split(r"\d[\d.,]*\s*\S*/s\S*", words)[-1]).strip(" :=≈~|-,;()").lower()
            prefill = any(w in named for w in ("prefill", "prompt", "input"))
            result = Result("noted line", source, n, named or UNNAMED)
            metric = "prefill_tok_s" if prefill else "output_tok_s"
            yield from result.sample(metric, _value(found["value"]), said=line.strip())
