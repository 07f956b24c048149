"""One value in our words: numbers as numbers, words in lower case, both engines' names for one thing made one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from dflash_doctor.settings.rows import UNSET, SettingRow, Spelling

TRUE = ("1", "true", "yes", "on", "y", "t")
FALSE = ("0", "false", "no", "off", "n", "f", "")
LONGEST = 4000  # of a text kept as a value

# <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, CompilationMode.NONE, torch.bfloat16, AttentionBackendEnum.FLASH_ATTN
_ENUM = re.compile(r"^<?(?:[A-Za-z_]\w*\.)+(?P<name>[A-Za-z_]\w*)(?:: .*>)?$", re.S)
# 32k, 1.5M (decimal), 8K (binary): vllm human_readable_int
_HUMAN = re.compile(r"^(?P<number>\d{1,12}(?:\.\d{1,6})?)(?P<unit>[kKmMgGtT])$")
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


# api_key, hf_token, watermark_key: never stored, never shown; max_tokens and ssl_keyfile are no secrets
SECRET = re.compile(r"(?:^|[_-])(?:key|token|secret|password|passwd|credentials?)$", re.I)
HIDDEN = "<hidden>"


def secret(name: str, value: Any = "") -> bool:
    """Whether the value of a flag or an argument of this name must not be kept."""
    return bool(SECRET.search(name.rpartition(".")[2])) and value is not None and not isinstance(value, bool)


def neutral(row: SettingRow, spelling: Spelling | None, raw: Any) -> Any:
    """The value in neutral words; UNSET when it says nothing."""
    if raw is None or raw == "None":
        return row.none
    if spelling is not None and spelling.switch:
        return _stands_for(spelling, raw)
    if spelling is not None and spelling.words and str(raw) in spelling.words:
        return spelling.words[str(raw)]
    if row.kind == "int":
        return as_int(raw)
    if row.kind == "float":
        return as_float(raw)
    if row.kind == "bool":
        on = as_bool(raw)
        return as_text(raw) if on is None else on
    if row.kind == "sizes":
        return as_sizes(raw)
    if row.kind == "list":
        return as_list(raw)
    return word(row, raw) if row.kind == "word" else as_text(raw)


def word(row: SettingRow, raw: Any) -> str:
    """An enumerated value: in lower case, without the class it was printed with, by its neutral name."""
    text = as_text(raw).strip().strip("'\"")
    enum = _ENUM.match(text[:200])
    text = (enum["name"] if enum else text).lower()
    return row.words.get(text) or _by_ending(row, text) or text


def _by_ending(row: SettingRow, text: str) -> str | None:
    # deepseek_mtp, qwen3_next_mtp, glm4_moe_mtp … are one method
    endings = ((s[1:], w) for s, w in row.words.items() if s.startswith("*"))
    return next((w for ending, w in endings if text.endswith(ending)), None)


def _stands_for(spelling: Spelling, raw: Any) -> Any:
    on = as_bool(raw)
    return UNSET if on is None else (spelling.on_is if on else spelling.off_is)


def as_bool(raw: Any) -> bool | None:
    """On or off, as any of the spellings people use."""
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, (int, float)):
        return bool(raw)
    text = str(raw).strip().lower()
    return True if text in TRUE else False if text in FALSE else None


def as_int(raw: Any) -> Any:
    """A whole number, also as `32k`; anything else is kept as it is."""
    if isinstance(raw, bool):
        return int(raw)
    if isinstance(raw, int):
        return raw
    if isinstance(raw, float):
        return int(raw) if raw.is_integer() else raw
    text = as_text(raw).strip().replace("_", "")
    human = _HUMAN.match(text)
    if human:
        return int(float(human["number"]) * _UNITS[human["unit"]])
    if re.fullmatch(r"[-+]?\d{1,18}", text):
        return int(text)
    number = as_float(text)
    return int(number) if isinstance(number, float) and number.is_integer() else as_text(raw)


def as_float(raw: Any) -> Any:
    """A number; anything else is kept as it is."""
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        return float(raw)
    text = as_text(raw).strip()
    if re.fullmatch(r"[-+]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][-+]?\d{1,2})?", text):
        return float(text)
    return text


def as_sizes(raw: Any) -> tuple[int, ...]:
    """Sizes in ascending order: a list, `1,2,4`, `[1, 2, 4]` or `1 2 4`."""
    if isinstance(raw, (str, int)):
        raw = re.findall(r"\d{1,9}", str(raw)[:100_000])
    if not isinstance(raw, Iterable):
        return ()
    return tuple(sorted({int(x) for x in raw if str(x).strip().isdigit() and len(str(x)) < 10}))


def as_list(raw: Any) -> tuple[Any, ...]:
    """Several values; one alone is a list of one."""
    if isinstance(raw, (list, tuple, set, frozenset)):
        return tuple(x if isinstance(x, (str, int, float, bool)) else as_text(x) for x in raw)
    return (as_text(raw),)


def as_text(raw: Any) -> str:
    """Text as it was said; structures as JSON with sorted keys, so that equal ones are equal."""
    if isinstance(raw, str):
        return raw[:LONGEST]
    if isinstance(raw, (Mapping, list, tuple)):
        try:
            return json.dumps(raw, sort_keys=True, default=str)[:LONGEST]
        except (TypeError, ValueError, RecursionError):
            return str(raw)[:LONGEST]
    return str(raw)[:LONGEST]


def plain(raw: Any) -> Any:
    """A value nobody knows, in a form that can be stored and compared."""
    return raw if isinstance(raw, (bool, int, float)) else as_text(raw)
