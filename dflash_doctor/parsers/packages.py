"""`packages.txt`: what is installed in the engine's environment. One value is one package's version.

    flash-attn==2.8.3
    sglang @ git+https://github.com/sgl-project/sglang.git@163b97012
    torch                     2.11.0+cu130

`pip freeze`, the table of `pip list`, its JSON, `uv pip list`, `conda list`, `name version` pairs. Names are compared
in the one form of PEP 503: lower case, with dashes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from dflash_doctor.model import Facts, Unreadable
from dflash_doctor.parsers.texts import refuse_binary

READS: tuple[str, ...] = ("packages.txt", "packages.json", "pip.txt", "requirements.txt")

LONGEST = 4_194_304  # characters; the largest environments have a thousand packages

_NAME = r"(?P<name>[A-Za-z0-9][\w.-]{0,127}?)"
# torch==2.11.0+cu130 ; sys_platform == "linux"
_PINNED = re.compile(rf"{_NAME}(?:\[[^\]\n]{{0,200}}\])?\s*={{2,3}}\s*(?P<version>[^\s;#,]+)")
# sglang @ git+https://github.com/sgl-project/sglang.git@main
_FROM = re.compile(rf"{_NAME}(?:\[[^\]\n]{{0,200}}\])?\s+@\s+(?P<version>\S+)")
# -e git+https://github.com/vllm-project/vllm.git@4a1e6c0d2#egg=vllm
_EDITABLE = re.compile(r"(?:-e|--editable)\s+(?P<version>\S+?)(?:#|&)egg=(?P<name>[\w.-]{1,128})")
# torch                     2.11.0+cu130      (a table may name a location after it)
_COLUMNS = re.compile(rf"{_NAME}\s+\(?(?P<version>v?\d[\w.!+-]*)\)?(?:\s|$)")


def parse(text: str, source: str) -> Facts:
    """Versions by package name."""
    refuse_binary(text, "a list of packages")
    found = dict(_json(text[:LONGEST]) or _lines(text[:LONGEST]))
    if not found:
        raise Unreadable("no package with a version is listed here")
    return Facts(packages=found)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        entry = line[:2000].strip()
        if not entry or entry.startswith(("#", "--- ", "----")):
            continue
        found = _EDITABLE.match(entry) or _PINNED.match(entry) or _FROM.match(entry) or _COLUMNS.match(entry)
        if found:
            yield normal(found["name"]), _version(found["version"])


def _json(text: str) -> list[tuple[str, str]]:
    if text.lstrip()[:1] not in ("[", "{"):
        return []
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if isinstance(loaded, dict):
        return [(normal(k), v) for k, v in loaded.items() if isinstance(v, str)]
    named = [p for p in loaded if isinstance(p, dict) and isinstance(p.get("name"), str)]
    return [(normal(p["name"]), str(p["version"])) for p in named if p.get("version")]


def normal(name: str) -> str:
    """`Flash_Attn` -> `flash-attn`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _version(said: str) -> str:
    # a wheel from a URL says its version in its name
    wheel = re.search(r"/[\w.]+-(\d[\w.!%+]*)-[^/]{1,200}\.whl", said)
    return wheel[1].replace("%2B", "+") if wheel else said
