"""The box tables of GenAI-Perf and AIPerf are read as their JSON is."""

from __future__ import annotations

import pytest

from dflash_doctor.parsers import load_txt

TABLE = """genai-perf profile -m qwen --concurrency 40
                                   NVIDIA GenAI-Perf | LLM Metrics
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┓
┃                         Statistic ┃      avg ┃      min ┃      p99 ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━┩
│          Time To First Token (ms) │ 1,120.40 │   210.01 │ 3,402.90 │
│          Inter Token Latency (ms) │    58.30 │    12.90 │   133.02 │
│   Output Sequence Length (tokens) │   150.00 │   150.00 │   150.00 │
│    Input Sequence Length (tokens) │ 3,000.00 │ 3,000.00 │ 3,000.00 │
│ Output Token Throughput (per sec) │   561.20 │      N/A │      N/A │
│      Request Throughput (per sec) │     3.74 │      N/A │      N/A │
│             Request Count (count) │   240.00 │      N/A │      N/A │
└───────────────────────────────────┴──────────┴──────────┴──────────┘
"""


@pytest.mark.parametrize(
    "text",
    [
        TABLE,
        TABLE.replace("Statistic", "   Metric").replace("GenAI-Perf", "AIPerf"),
        TABLE.translate(str.maketrans("│┃", "||")),
    ],
    ids=["GenAI-Perf", "AIPerf", "rules of |"],
)
def test_a_table_gives_its_figures_under_their_own_definition(text):
    samples = {s.metric: s for s in load_txt.parse(text, "load.txt").samples}
    found = {m: samples[m].value for m in ("output_tok_s", "ttft_ms", "tpot_ms", "req_s")}
    assert found == {"output_tok_s": 561.2, "ttft_ms": 1120.4, "tpot_ms": 58.3, "req_s": 3.74}
    assert samples["output_tok_s"].concurrency == 40
    assert samples["output_tok_s"].conditions["mean_input_tokens"] == 3000


def test_of_a_warm_up_and_a_run_the_run_counts():
    warm = TABLE.replace("561.20", "  9.99")
    samples = {s.metric: s.value for s in load_txt.parse(warm + TABLE, "load.txt").samples}
    assert samples["output_tok_s"] == 561.2
