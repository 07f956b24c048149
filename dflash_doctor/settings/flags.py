"""The words of a command line as arguments: flags, switches, abbreviations, JSON options however they are typed."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice, takewhile
from typing import Any

from dflash_doctor.model import Evidence, Setting
from dflash_doctor.settings.rows import Spelled, bare, by_flag, several, switches
from dflash_doctor.settings.said import CONTAINERS, opened, told
from dflash_doctor.settings.values import HIDDEN, secret

# short names that argparse completes, or that only the parser knows
SHORT = {
    "vllm": {"-cc": "--compilation-config", "-ac": "--attention-config", "-sc": "--speculative-config", "-O": "-O"},
    "sglang": {"--tp": "--tp-size", "--dp": "--dp-size", "--pp": "--pp-size", "--ep": "--ep-size"},
}  # fmt: skip
_FLAG = re.compile(r"--?[A-Za-z]")
_OPTIMIZE = re.compile(r"-O(?P<value>\d)$")  # -O3
SHOWN = 300  # characters of a flag and its words in evidence
MODEL = {"vllm": "model", "sglang": "model_path"}  # what the word without a flag is
MANY = ("list", "sizes")


def from_flags(
    engine: str, argv: Sequence[str], version: str | None, source: str | None = None, line: int | None = None
) -> tuple[Setting, ...]:
    """Settings of the words that follow the program's name; the last of equal flags wins.

    With a `source` each setting has the words of its flag as evidence, those of every flag when it is given twice.
    """
    args, spelled = read_flags(engine, argv)
    typed = as_typed(argv) if source else {}
    given = _by_argument(engine, typed)

    def seen(name: str) -> Evidence | None:
        flag = spelled.get(name) or spelled.get(name.partition(".")[0], "")
        text = " ".join(typed[f] for f in given.get(name, ()) if f in typed) or typed.get(flag)
        return Evidence(source, text[:SHOWN], line) if source and text else None

    return told(engine, args, version, "asked", seen, spelled)


def _by_argument(engine: str, typed: Iterable[str]) -> dict[str, list[str]]:
    """Flags that name one argument, as they were typed: `--enable-x` and `--no-enable-x`, `--tp` and `--tp-size`."""
    found: dict[str, list[str]] = {}
    for flag in typed:
        if flag != "MODEL" and "." not in flag:
            whole = _complete(engine, _undotted(flag)[0])
            negated = whole.startswith("--no-")
            known = by_flag(engine).get("--" + whole[5:] if negated else whole)
            found.setdefault(_name(engine, whole, negated, known), []).append(flag)
    return found


def as_typed(argv: Sequence[str]) -> dict[str, str]:
    """Each flag with the words that follow it, every time it is given."""
    words: dict[str, list[str]] = {}
    flag = "MODEL"
    for word in argv:
        if _FLAG.match(word):
            flag = word.partition("=")[0]
            words.setdefault(flag, []).extend([flag, HIDDEN] if secret(flag) else [word])
        elif secret(flag):
            continue
        else:
            words.setdefault(flag, []).append(word)
    return {f: " ".join(w)[:SHOWN] for f, w in words.items()}


def read_flags(engine: str, argv: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Argument names with their values, and how each was written."""
    args: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    at = 0
    while at < len(argv):
        typed = argv[at]
        at += 1
        if not _FLAG.match(typed):
            if engine in MODEL and MODEL[engine] not in args:
                args[MODEL[engine]], spelled[MODEL[engine]] = typed, "MODEL"
            continue
        flag, has_value, value = typed.partition("=")
        optimize = _OPTIMIZE.match(flag)
        if optimize and engine == "vllm":
            flag, has_value, value = "-O", "=", optimize["value"]
        flag, dot, rest = _undotted(flag)
        flag = _complete(engine, flag)
        negated = flag.startswith("--no-") and not has_value
        known = by_flag(engine).get("--" + flag[5:] if negated else flag)
        takes = 0 if has_value or negated else _takes(engine, flag, known, argv, at) if not dot else 1
        words = list(argv[at : at + takes])
        at += takes
        given: Any = value if has_value else (words if takes > 1 else words[0] if words else not negated)
        _keep(args, spelled, _name(engine, flag, negated, known), dot + rest, given, typed.partition("=")[0])
    return args, spelled


def _undotted(flag: str) -> tuple[str, str, str]:
    """`--speculative-config.method`, `-cc.mode`: the option, and the key inside it."""
    option, dot, rest = flag.partition(".")
    return option.replace("_", "-") if option.startswith("--") else option, dot, rest.rstrip("+")


def _complete(engine: str, flag: str) -> str:
    """The whole flag for a short one or for an unmistakable beginning of it, as argparse does."""
    flags = by_flag(engine)
    flag = SHORT.get(engine, {}).get(flag, flag)
    if flag in flags or not flag.startswith("--") or len(flag) < 6:
        return flag
    if flag in switches(engine) or flag in several(engine):
        return flag
    ordered = in_order(engine)
    first = bisect_left(ordered, flag)
    begun = {flags[f][0].key: f for f in takewhile(lambda f: f.startswith(flag), islice(ordered, first, None))}
    return next(iter(begun.values())) if len(begun) == 1 else flag


@cache
def in_order(engine: str) -> tuple[str, ...]:
    """All flags of an engine, sorted."""
    return tuple(sorted(by_flag(engine)))


def _takes(engine: str, flag: str, known: Spelled | None, argv: Sequence[str], at: int) -> int:
    """How many of the next words belong to this flag."""
    follows = at < len(argv) and not _FLAG.match(argv[at])
    if not follows:
        return 0
    if flag in switches(engine):
        return 1 if argv[at].lower() in ("true", "false") else 0
    if flag not in several(engine) and (known is None or known[0].kind not in MANY):
        return 1
    end = at
    while end < len(argv) and not _FLAG.match(argv[end]):
        end += 1
    return end - at


def _name(engine: str, flag: str, negated: bool, known: Spelled | None) -> str:
    if flag == "-O":
        return "compilation_config"
    if known is not None:
        spelling = known[1]
        return spelling.field or bare(spelling.flag or flag)
    return bare(flag[5:] if negated else flag)


def _keep(args: dict[str, Any], spelled: dict[str, str], name: str, inside: str, given: Any, typed: str) -> None:
    if inside:
        option = args.get(name)
        nested = option if isinstance(option, dict) else {}
        args[name] = nested
        spelled[name + inside] = typed
        *path, last = inside.strip(".").split(".")[:8]
        for part in path:
            below = nested.get(part)
            if not isinstance(below, dict):
                below = nested[part] = {}
            nested = below
        nested[last] = given
        return
    value = opened(given) if name in CONTAINERS else given
    if name == "compilation_config" and typed.startswith("-O") and not isinstance(value, dict):
        name = "optimization_level"  # -O3, also beside --compilation-config
    args[name] = value
    spelled[name] = typed
