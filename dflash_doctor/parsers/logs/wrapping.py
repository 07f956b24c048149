"""Takes the wrapping off a pasted log: what docker, compose, kubectl, journald, CRI, pm2 or grep put round each line.

    vllm-1  | (EngineCore pid=61) INFO 05-21 21:31:45 [kv_cache_utils.py:1708] GPU KV cache size: 334,400 tokens
    2026-11-23T09:14:07.123456789Z stderr F (EngineCore pid=61) INFO 05-21 21:31:45 [kv_cache_utils.py:1708] GPU KV …
    {"log":"(EngineCore pid=61) INFO 05-21 21:31:45 [kv_cache_utils.py:1708] GPU KV …\\n","stream":"stderr","time":"…"}

Wrappings nest (compose over RFC 3339 over JSON), so they are taken off one by one until none is left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dflash_doctor.parsers.logs import clock

MAX_NESTED = 4  # compose, then a stamp, then JSON, then a grep number: deeper was never seen


class Raw(NamedTuple):
    """One line of a file as it stands there."""

    number: int  # 1-based
    text: str
    times: int = 1  # lines like it that it stands for, itself counted


@dataclass(frozen=True, slots=True)
class Line:
    """One line as the engine wrote it, and what its wrapping knew."""

    number: int  # 1-based, in the pasted text
    text: str
    time: float | None = None  # seconds since the epoch, from the wrapping: the reliable clock
    label: str = ""  # service, pod or unit that wrote it
    level: str = ""  # JSON logs carry it beside the message
    process: str = ""
    times: int = 1  # lines that it stands for
    ends: bool = True  # False: the transport cut the line here, the next one of this label goes on


def lines(texts: Iterable[Raw]) -> Iterator[Line]:
    """Every line without its wrapping, progress bars reduced to their last state."""
    kept: dict[str, Line] = {}  # label -> the beginning of a line that the transport cut
    for number, raw, times in texts:
        if not raw or raw.isspace():
            continue
        for piece in _pieces(raw):
            line = _unwrapped(Line(number, piece, times=times))
            if line.label in kept or not line.ends:
                begun = kept.pop(line.label, None)
                line = line if begun is None else replace(begun, text=begun.text + line.text, ends=line.ends)
                if not line.ends and len(line.text) < MAX_JOINED:
                    kept[line.label] = line
                    continue
            if "\n" in line.text or "\r" in line.text:
                yield from (replace(line, text=t) for part in line.text.split("\n") for t in _pieces(part) if t.strip())
            elif line.text.strip():
                yield line
    yield from kept.values()


MAX_JOINED = 4_000_000  # characters of one joined line: more is not a log line


# -- control characters -----------------------------------------------------------------------------------------------

# ESC[1;36m(EngineCore pid=61)ESC[0;0m INFO …; syslog writes the ESC as #033, `cat -v` and pagers as ^[
ANSI = re.compile(r"(?:\x1b|\u241b|#033|\^\[)(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\))")
# [1;36m(EngineCore_DP0 pid=2388)[0;0m INFO …: a form or a JSON field has eaten the ESC; a reset is always there too
LOST_ESC = re.compile(r"\[\d{1,3}(?:;\d{1,3}){0,4}m")
RESET = re.compile(r"\[0(?:;0)?m")
# Capturing CUDA graphs (decode, FULL): 100%|██████████| 35/35 [00:03<00:00, 11.2it/s]
BAR = re.compile(r"\d%\s*(?:\||Completed)")


def _pieces(raw: str) -> list[str]:
    """One physical line holds all states of a progress bar, parted by carriage returns: keep the last one."""
    raw = _plain(raw.lstrip("\ufeff"))
    if "\r" not in raw:
        return [raw]
    parts = [p for p in raw.split("\r") if p.strip()]
    return [p for i, p in enumerate(parts) if i == len(parts) - 1 or not BAR.search(p)]


def _plain(raw: str) -> str:
    if "\x1b" in raw or "#033" in raw or "^[" in raw or "\u241b" in raw:
        raw = ANSI.sub("", raw)
    if RESET.search(raw):
        raw = LOST_ESC.sub("", raw)
    return raw


# -- transports -------------------------------------------------------------------------------------------------------

# 2026-11-23T09:14:07.123456789Z stderr F body      (containerd; docker logs -t and kubectl --timestamps: stamp only)
STAMP = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)\s"
    r"(?:(?P<stream>stdout|stderr) (?P<tag>[PF])(?::\S*)? ?)?"
)
# Nov 23 09:14:07 host vllm[2101]: body             (journald short, syslog)
SYSLOG = re.compile(
    r"(?P<time>(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d)(?:\.\d+)? "
    r"(?P<host>[\w.-]+) (?P<unit>[\w@.:/\\-]+)(?:\[\d+\])?: ?"
)
# Mon 2026-11-23 09:14:07 UTC host vllm[2101]: body (journald short-full)
SHORT_FULL = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)? \w+ "
    r"(?P<host>[\w.-]+) (?P<unit>[\w@.:/\\-]+)\[\d+\]: ?"
)
# host vllm[2101]: body                             (what is left of journald short-iso after its stamp)
HOST_UNIT = re.compile(r"(?P<host>[\w.-]+) (?P<unit>[\w@.:/\\-]+)\[\d+\]: ?")
# [pod/vllm-0/engine] body                          (kubectl logs --prefix)
POD = re.compile(r"\[pod/(?P<label>[^\]\s]{1,200})\] ?")
# vllm-1  | body                                    (docker compose; pm2 writes `0|vllm  | body`)
COMPOSE = re.compile(r"(?:\d+\|)?(?P<label>[A-Za-z0-9][\w.-]{0,80}) *\|(?: |$)")
# server.log:512:(EngineCore pid=61) INFO …         (grep -n)
GREP = re.compile(
    r"(?:[\w./@-]{1,200}[:-])?\d{1,9}[:-](?=\(\w+[^()]* pid=|\[\d{4}-|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d )"
)
PRIORITY = re.compile(r"<\d{1,3}>1? ?")

TEXT_KEYS = ("log", "MESSAGE", "message", "msg", "event", "textPayload", "body", "line")
TIME_KEYS = ("time", "timestamp", "asctime", "ts", "@timestamp", "__REALTIME_TIMESTAMP", "created")
LEVEL_KEYS = ("levelname", "level", "severity", "lvl")
LABEL_KEYS = ("container_name", "CONTAINER_NAME", "pod", "_SYSTEMD_UNIT", "service")
LEVELS = {"WARN": "WARNING", "FATAL": "CRITICAL", "ERR": "ERROR"}


def _unwrapped(line: Line) -> Line:
    for _ in range(MAX_NESTED):
        inner = _one_layer_less(line)
        if inner is None:
            return line
        line = replace(inner, text=_plain(inner.text))
    return line


def _one_layer_less(line: Line) -> Line | None:
    text = line.text
    first = text[:1]
    if first == "{":
        return _from_json(line)
    if first == "<" and (m := PRIORITY.match(text)):
        return replace(line, text=text[m.end() :])
    if first == "[":
        m = POD.match(text)
        return replace(line, text=text[m.end() :], label=m["label"]) if m else None
    if first.isdigit():
        if m := STAMP.match(text):
            return _stamped(line, m)
        if m := GREP.match(text):
            return replace(line, text=text[m.end() :])
    elif m := SYSLOG.match(text) or SHORT_FULL.match(text):
        return replace(line, text=text[m.end() :], label=m["unit"], time=line.time or clock.epoch(m["time"]))
    elif "pid=" in text[:300] and (m := GREP.match(text)):
        return replace(line, text=text[m.end() :])
    if "|" in text[:100] and (m := COMPOSE.match(text)):
        return replace(line, text=text[m.end() :], label=line.label or m["label"])
    return None


def _stamped(line: Line, m: re.Match[str]) -> Line:
    rest = line.text[m.end() :]
    # docker and kubectl stamp every line; an engine's own ISO stamp is followed by a level and stays
    out = replace(line, text=rest, time=line.time or clock.epoch(m["time"]), ends=m["tag"] != "P")
    unit = HOST_UNIT.match(rest)
    return replace(out, text=rest[unit.end() :], label=unit["unit"]) if unit else out


def _from_json(line: Line) -> Line | None:
    try:
        found = json.loads(line.text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    key = next((k for k in TEXT_KEYS if isinstance(found.get(k), (str, list))), None)
    if key is None:
        return None
    body = _message(found[key])
    if body is None:
        return None
    level = next((str(found[k]).upper() for k in LEVEL_KEYS if isinstance(found.get(k), str)), "")
    return Line(
        number=line.number,
        # docker's json-file cuts lines over 16 KiB; only the last part ends with a newline
        ends=key != "log" or body.endswith("\n") or "stream" not in found,
        text=body.rstrip("\n"),
        time=line.time or _json_time(found),
        label=line.label or _json_label(found),
        level=LEVELS.get(level, level) if level in KNOWN_LEVELS else "",
        times=line.times,
        process=str(found["processName"]) if isinstance(found.get("processName"), str) else "",
    )


KNOWN_LEVELS = ("DEBUG", "INFO", "WARN", "WARNING", "ERR", "ERROR", "FATAL", "CRITICAL")


def _message(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    # journald writes a message with control characters as an array of byte values
    if all(isinstance(b, int) and 0 <= b < 256 for b in value):
        return bytes(value).decode("utf-8", errors="replace")
    return None


# "MESSAGE":[27,91,49,59,51,54,109,40,69,110,…]
BYTES = re.compile(rb'(?<="MESSAGE":)\s?\[\s?(\d{1,3}(?:,\s?\d{1,3})*)\s?\]')


def spelled_out(block: bytes) -> bytes:
    """A block of journald's JSON with messages in letters, where they can be searched."""
    return BYTES.sub(_letters, block) if block[:1] == b"{" else block


def _letters(m: re.Match[bytes]) -> bytes:
    values = [int(n) for n in m[1].split(b",")]
    return json.dumps(_message(values)).encode() if max(values) < 256 else m[0]


def _json_time(found: dict[str, Any]) -> float | None:
    for key in TIME_KEYS:
        value = found.get(key)
        if isinstance(value, str) and key != "__REALTIME_TIMESTAMP":
            return clock.epoch(value)
        if key == "__REALTIME_TIMESTAMP" and isinstance(value, str) and value.isdigit():
            return int(value[:18]) / 1e6
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value) / (1e3 if value > 1e11 else 1.0)
    return None


def _json_label(found: dict[str, Any]) -> str:
    pod = found.get("kubernetes")
    if isinstance(pod, dict) and isinstance(pod.get("pod_name"), str):
        return str(pod["pod_name"])
    return next((str(found[k]) for k in LABEL_KEYS if isinstance(found.get(k), str)), "")
