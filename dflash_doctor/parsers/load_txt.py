"""load.txt: what a benchmark printed on the console. Tables of labels and values, and lines that tell a rate.

    ============ Serving Benchmark Result ============
    Successful requests:                     32
    Output token throughput (tok/s):         57.10
    Mean TTFT (ms):                          20092.40
    ==================================================

vllm bench serve and sglang.bench_serving (console_tables.py), GenAI-Perf and AIPerf (console_boxes.py),
`dflash benchmark` with any backend (console_dflash.py), the offline benchmarks, and lines anybody noted
(console_lines.py). Several results may follow each other; the command or the Namespace above them tells what was run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dflash_doctor.model import Facts, Unreadable
from dflash_doctor.parsers import console_boxes, console_dflash, console_lines, console_tables
from dflash_doctor.parsers.texts import refuse_binary

READS: tuple[str, ...] = ("load.txt",)

LONGEST = 4000  # characters of a line; a Namespace of vllm bench has two thousand
COLOUR = re.compile(r"\x1b\[[\d;]{0,20}[A-Za-z]")
FAMILIES = (console_tables.read, console_boxes.read, console_dflash.read, console_lines.read)

# Namespace(…, dataset_name='random', random_input_len=16000, max_concurrency=8, request_rate=inf, …)
NAMESPACE = re.compile(r"\b(?P<name>[a-z][a-z_]{1,40})=(?P<value>'[^']{0,200}'|\"[^\"]{0,200}\"|[\w.+-]{1,60})")
# vllm bench serve --dataset-name random --random-input-len=16000 …
FLAG = re.compile(r"--(?P<name>[a-z][a-z-]{1,40})[= ](?P<value>[^\s-]\S{0,200})")
COMMAND = re.compile(r"bench")
# Traffic request rate: 16.0        (above the table)
TRAFFIC = re.compile(r"Traffic request rate: {0,40}(?P<rate>[\d.]{1,12}|inf)")


def parse(text: str, source: str) -> Facts:
    """The samples of every result. Raises Unreadable when no number of speed is in it."""
    refuse_binary(text, "a benchmark's output")
    # a progress bar rewrites its line: what stands last is what one saw
    shown = (raw.rstrip("\r").rpartition("\r")[2][:LONGEST] for raw in text.split("\n"))
    lines = [(n, COLOUR.sub("", line).rstrip()) for n, line in enumerate(shown, 1)]
    asked = _asked(line for _, line in lines)
    for family in FAMILIES:
        found = family(lines, asked, source)
        if found.samples:
            return found
    raise Unreadable("no result of a benchmark in it: no table we know, and no line with tok/s")


def _asked(lines: Iterable[str]) -> dict[str, str]:
    """What the command line or its Namespace says was run; the last saying of a name counts."""
    found: dict[str, str] = {}
    for line in lines:
        if "Namespace(" in line:
            found |= {m["name"]: m["value"].strip("'\"") for m in NAMESPACE.finditer(line)}
        elif "--" in line and COMMAND.search(line):
            found |= {m["name"].replace("-", "_"): m["value"].strip("'\"") for m in FLAG.finditer(line)}
        elif rate := TRAFFIC.match(line.lstrip()):
            found["request_rate"] = rate["rate"]
    return found
