"""What contradicts itself on the tuned side: flags that undo each other, and what was asked for but does not run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dflash_doctor.model import Setting, Snapshot
from dflash_doctor.port import tables
from dflash_doctor.settings import alike

CHAINS = ("mtp", "eagle", "eagle3", "draft_model")  # methods whose width SGLang resets to depth + 1


def clashes(s: Snapshot) -> tuple[str, ...]:
    """One sentence for each contradiction."""
    return (*_twice(s), *_listed(s), *_width(s), *_not_running(s))


def _twice(s: Snapshot) -> Iterator[str]:
    """A flag that is given again with another value; its evidence has both."""
    for key, setting in s.asked.items():
        text = setting.evidence.text if setting.evidence is not None else ""
        if not text.startswith("--"):
            continue
        given = [f"--{part}".strip() for part in f" {text}".split(" --")[1:]]
        told = {_value_of(g) for g in given}
        if len(given) > 1 and len(told) > 1 and tables.is_row(key):
            yield f"{' and '.join(given)} contradict each other: the last one counts"


def _value_of(given: str) -> str:
    """`--tp 2` and `--tp-size=2` say the same; a switch says its own name."""
    flag, _, value = given.replace("=", " ", 1).partition(" ")
    return value or flag


def _listed(s: Snapshot) -> Iterator[str]:
    for rule in tables.section("clashes"):
        if rule["engine"] != s.engine or not _holds(s, rule["when"]):
            continue
        others = [k for k in rule.get("with", ()) if k in s.asked]
        above = [k for k, limit in rule.get("above", {}).items() if _more(s.value(k), limit)]
        alone = "with" not in rule and "above" not in rule
        if others or above or alone:
            said = [_said(s, k) for k in (*rule["when"], *others, *above) if k in s.settings]
            yield f"{' and '.join(said)} contradict each other: {rule['why']}"


def _holds(s: Snapshot, when: dict[str, Any]) -> bool:
    return all(s.value(key) == value for key, value in when.items())


def _more(value: Any, limit: int) -> bool:
    return isinstance(value, int) and value > limit


def _said(s: Snapshot, key: str) -> str:
    setting = s.asked.get(key) or s.settings[key]
    return _words(setting)


def _words(setting: Setting) -> str:
    if not setting.spelled or setting.said == "default":
        return f"{setting.key} {setting.value}"
    shown = "" if isinstance(setting.value, bool) or setting.value == "none" else f" {setting.value}"
    return setting.spelled + shown


def _width(s: Snapshot) -> Iterator[str]:
    """SGLang verifies one token more than it drafts: with a chain any other width is reset at start."""
    steps, width = s.value("spec.num_steps"), s.value("spec.num_draft_tokens")
    chain = s.value("spec.topk", 1) == 1 and s.value("spec.method") in CHAINS
    if s.engine == "sglang" and chain and isinstance(steps, int) and isinstance(width, int) and width != steps + 1:
        yield (
            f"--speculative-num-steps {steps} and --speculative-num-draft-tokens {width} contradict each other: "
            f"a chain of {steps} verifies {steps + 1}, and SGLang resets it so"
        )
    block = s.value("spec.block_size")
    if s.value("spec.method") == "dflash" and isinstance(block, int) and isinstance(width, int) and block != width:
        yield (
            f"--speculative-dflash-block-size {block} and --speculative-num-draft-tokens {width} contradict each "
            "other: SGLang refuses to start"
        )


def _not_running(s: Snapshot) -> Iterator[str]:
    for key, asked in s.asked.items():
        runs = s.settings.get(key)
        if runs is None or runs.said != "effective" or not tables.is_row(key):
            continue
        if not alike(key, asked.value, runs.value):
            yield f"{_words(asked)} was asked for, but the engine runs {runs.value}; that is what is carried over"
