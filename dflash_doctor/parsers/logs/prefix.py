"""Takes the engine's own prefix off a line: who said it, when, how loud.

    (Worker_TP0 pid=397) INFO 06-11 11:58:06 [gpu_model_runner.py:4801] Loading drafter model...     vLLM
    [2026-10-02 20:05:24 TP0] Memory pool end. avail mem=5.81 GB                                     SGLang, no level
    2025-12-04 20:34:01 INFO 151972 [engine.py:128] server_args=ServerArgs(…)                         own logging setup

The layouts by version are those of vllm/logging_utils/formatter.py and sglang/srt/utils (configure_logger).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dflash_doctor.parsers.logs import clock
from dflash_doctor.parsers.logs.wrapping import LEVELS, Line

# (EngineCore_DP1 pid=2388) …, (VllmWorker rank=0 pid=61) …, (RayWorkerWrapper pid=2531, ip=10.0.0.2) …
PROCESS = re.compile(
    r"\((?P<name>[A-Za-z][\w.:-]{0,60})(?:\s+(?P<rank>(?:rank=)?[A-Z_]*\d+))?\s+"
    r"pid=(?P<pid>\d+)(?:, ip=(?P<ip>[\w.:]+))?\)\s?"
)
# INFO 05-21 21:31:45 [kv_cache_utils.py:1708] body   (before 0.8 without the opening bracket)
VLLM = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)? "
    r"\[?(?P<file>[^\]\s]{1,200})\] ?"
)
# [2026-10-02 20:05:24 DP0 TP0] body
SGLANG = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d+)?"
    r"(?P<rank>(?: (?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d+| encode_server| encode_dp_worker\[\d+\])*)\] ?"
)
# 2025-12-04 20:34:01,123 - vllm.engine - INFO - body, 2026-01-01 10:00:00.123 | INFO     | a.b:c:12 - body
PLAIN = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)[ |,-]+(?:[\w.]+ +[-|] +)?"
    r"\[?(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\]?[ :|-]+"
    r"(?:\d+ )?(?:\[[^\]\s]{1,120}:\d+\]|[\w.]{1,120}:[\w<>.]{1,80}:\d+)?[ :|-]*"
)
# INFO:     127.0.0.1:51234 - "POST /v1/completions HTTP/1.1" 200 OK    (uvicorn), WARNING:root:body (bare logging)
BARE = re.compile(r"(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)(?::\s*|\s+(?=\[))(?:[\w.]{1,80}:(?=\S))?")
# [W1123 09:14:07.123456789 ProcessGroupNCCL.cpp:1234] body, [rank0]:[W1123 …   (PyTorch C++)
TORCH = re.compile(
    r"(?:\[rank(?P<rank>\d+)\]: ?)?\[?(?P<level>[IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ +(?:\d+ )?[\w./]+:\d+\] ?"
)
TORCH_LEVELS = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}
# [repeated 7x across cluster] (Ray deduplicates …)
REPEATED = re.compile(r"\s*\[repeated (?P<n>\d+)x across cluster\].{0,300}$")
SEARCHED = 4000  # a stamp further inside a line is a quotation


@dataclass(frozen=True, slots=True)
class Record:
    """One line with its prefix understood."""

    number: int
    text: str  # the line as the engine wrote it, with its prefix
    body: str
    level: str = ""  # empty where the format carries none
    time: float | None = None
    rank: str = ""  # process or rank that said it
    pid: str = ""
    engine: str = ""  # the engine whose layout this is
    label: str = ""  # service, pod or unit
    repeated: int = 1
    dated: bool = False  # whether `time` counts from the epoch


def records(line: Line) -> Iterator[Record]:
    """The records of one line: more than one where a raw print without a newline stands before a logged line."""
    text = line.text
    repeated = line.times
    if text.endswith((")", "]")):
        again = REPEATED.search(text[-400:])
        if again:
            repeated *= int(again["n"][:9])
            text = text[: len(text) - (len(text[-400:]) - again.start())]
    found = VLLM.search(text, 0, SEARCHED) or SGLANG.search(text, 0, SEARCHED)
    if found is None:
        yield _other(line, text, repeated)
        return
    head = text[: found.start()]
    processes = list(PROCESS.finditer(head))
    before = head[: processes[0].start()] if processes else head
    if before.strip():
        yield _other(line, before.rstrip(), 1)
    yield _logged(line, text[len(before) :], text[found.end() :], found, processes, repeated)


def _logged(
    line: Line, text: str, body: str, found: re.Match[str], processes: list[re.Match[str]], repeated: int
) -> Record:
    vllm = found.re is VLLM
    rank, pid = _who(processes)
    stamp = clock.short(found["time"]) if vllm else clock.epoch(found["time"])
    # SGLang's uvicorn lines carry both: [2026-12-01 04:55:05] INFO:     127.0.0.1:46184 - "POST /generate …
    bare = None if vllm else BARE.match(body)
    level = found["level"] if vllm else bare["level"] if bare else line.level
    return Record(
        number=line.number,
        text=text,
        body=body[bare.end() :] if bare else body,
        level=LEVELS.get(level, level),
        time=line.time if line.time is not None else stamp,
        rank=rank if vllm else found["rank"].strip() or rank,
        pid=pid,
        engine="vllm" if vllm else "sglang",
        label=line.label,
        repeated=repeated,
        dated=line.time is not None or not vllm,
    )


def _other(line: Line, text: str, repeated: int) -> Record:
    """A line without an engine's stamp: raw prints, uvicorn, tracebacks, other logging set-ups."""
    level, rank, pid, body = line.level, line.process, "", text
    while m := PROCESS.match(body):
        rank, pid = _who([m])
        body = body[m.end() :]
    time, dated = line.time, line.time is not None
    if m := PLAIN.match(body):
        level, time, dated = m["level"], time if dated else clock.epoch(m["time"]), True
        body = body[m.end() :]
    elif m := TORCH.match(body):
        level, rank, body = TORCH_LEVELS[m["level"]], m["rank"] or rank, body[m.end() :]
    elif m := BARE.match(body):
        level, body = m["level"], body[m.end() :]
    engine = "vllm" if pid and rank.split("_")[0] in VLLM_PROCESSES else ""
    return Record(
        number=line.number, text=text, body=body, level=LEVELS.get(level, level), time=time, rank=rank, pid=pid,
        engine=engine, label=line.label, repeated=repeated, dated=dated,
    )  # fmt: skip


VLLM_PROCESSES = ("APIServer", "EngineCore", "Worker", "VllmWorker", "VllmWorkerProcess", "MainProcess", "DPSupervisor")


def _who(processes: list[re.Match[str]]) -> tuple[str, str]:
    if not processes:
        return "", ""
    last = processes[-1]  # Ray's own prefix stands before the engine's
    rank = last["rank"].removeprefix("rank=") if last["rank"] else ""
    name = f"{last['name']}_{rank}" if rank else last["name"]
    return (f"{name}@{last['ip']}" if last["ip"] else name), last["pid"]
