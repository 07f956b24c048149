"""`environ`: the server's environment. One value is one variable as the process was started with it.

    NCCL_P2P_DISABLE=1
    CUDA_VISIBLE_DEVICES=0,1

Lines, or ended by NUL as in /proc/PID/environ; `export A=1`, `declare -x A="1"`, compose's `- A=1` and `A: 1`, and the
list that `docker inspect` prints are read as well. Only variables that tune are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from dflash_doctor import settings
from dflash_doctor.model import Evidence, Facts, Gap, Unreadable
from dflash_doctor.parsers.texts import refuse_binary

READS: tuple[str, ...] = ("environ", "environ.txt")

LONGEST = 1_048_576  # characters; an environment is a few kilobytes
SHOWN = 300

# export NCCL_DEBUG=INFO
# - NCCL_DEBUG=INFO
#   NCCL_DEBUG: "INFO"
_LINE = re.compile(
    r"\s*(?:-\s+|export\s+|declare\s+-x\s+|setenv\s+|ENV\s+)?[\"']?(?P<name>[A-Za-z_]\w{0,199})(?:=|:\s+|\s+(?=\S))(?P<value>.*)$",
    re.S,
)


def parse(text: str, source: str) -> Facts:
    """The variables that tune."""
    refuse_binary(text, "an environment", nul=True)
    text = text[:LONGEST]
    env: dict[str, str] = {}
    lines: dict[str, Evidence] = {}
    strange = 0
    for number, entry in _entries(text):
        found = _LINE.match(entry)
        if found is None or ("=" not in entry and ":" not in entry):
            strange += 1
            continue
        name, value = found["name"], _unquoted(found["value"].strip())
        env[name] = value
        lines[name] = Evidence(source, f"{name}={value}"[:SHOWN], number)
    if not env:
        raise Unreadable("no line of the form NAME=value")
    gaps = (Gap(source, f"{strange} lines are not of the form NAME=value"),) if strange else ()
    # which engine it is, and so which of these still act, is known only with the rest of the capture
    return Facts(settings=settings.from_environ("", env, None, lines), gaps=gaps)


def _entries(text: str) -> Iterator[tuple[int | None, str]]:
    """Each `NAME=value` with its line, where there are lines."""
    if "\0" in text:
        yield from ((None, e) for e in text.split("\0") if e.strip())
        return
    listed = _json(text)
    if listed is not None:
        yield from ((None, e) for e in listed)
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def _json(text: str) -> list[str] | None:
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(loaded, dict):
        inner = loaded.get("Env")
        return [str(e) for e in inner] if isinstance(inner, list) else [f"{k}={v}" for k, v in loaded.items()]
    return [str(e) for e in loaded]


def _unquoted(value: str) -> str:
    for quote in "\"'":
        if len(value) > 1 and value[0] == quote and value[-1] == quote:
            return value[1:-1]
    return value
