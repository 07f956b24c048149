"""What a report says, each thing said once; the formats lay it out. Host text is made plain here."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from dflash_doctor.causes import causes
from dflash_doctor.model import (
    SPEED,
    Delta,
    Diagnosis,
    Drift,
    Evidence,
    Finding,
    KnownIssue,
    Setting,
    Signal,
    Slowdown,
    Snapshot,
)
from dflash_doctor.report.figures import bare, counted, label, pace, percent, times, value
from dflash_doctor.report.hosttext import plain

LOUD = 0.5  # below this a finding is "to check" (CONTRACTS.md: severity)
MOVED = ("worse", "minor", "better")  # verdicts that state a difference; beside no other stands a percent
ENGINES = {"vllm": "vLLM", "sglang": "SGLang"}

UTC = re.compile(r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<minute>\d\d:\d\d)[\d:.]*(?:Z|\+00:00)$")
# how sure a probability sounds
SURE = ((0.9, "nearly certain"), (0.7, "likely"), (LOUD, "plausible"), (0.0, "to check"))

# a step that begins so is a command and is kept in one piece to be copied, unless it goes on as a sentence
COMMAND_LINE = re.compile(
    r"(?:sudo |[A-Z][A-Z0-9_]+=\S+ )*"
    r"(?:pip|uv|apt|python3?|vllm|sglang|dflash-doctor|docker|podman|kubectl|systemctl|journalctl|ssh|curl|export|unset"
    r"|nvidia-smi|dcgmi|lspci|lsmod|modprobe|sysctl|dmesg|numactl|taskset|cpupower|grep|cat|ls|echo|kill) "
    r"(?!.*\b(?:and|or|then) (?:start|compare|run|look|read|try)\b)"
)


# -- the verdict ------------------------------------------------------------------------------------------------------


def verdict(d: Diagnosis) -> str:
    """The first line: `regressed: 17.7 tok/s, was 73.5 (4.2x slower)`."""
    return f"{d.verdict.replace('_', ' ')}: {_why(d)}"


def _why(d: Diagnosis) -> str:
    slow = d.slowdown
    if d.verdict == "not_comparable":
        return _unlike(d)
    if d.verdict == "suspect":
        return _suspicion(d)
    if d.verdict == "inconclusive":
        return f"could not look well enough ({_doubt(d)})"
    if slow is None:
        return _no_number(d)
    change = f" ({pace(slow.factor)})" if d.verdict != "healthy" or _moved(d, slow) else ""
    tail = {"minor": ": real, but below the margin", "unconfirmed": ", seen once: run it again to be sure"}
    return f"{_speed(slow)}{change}{tail.get(d.verdict, '')}"


def _doubt(d: Diagnosis) -> str:
    if d.slowdown is not None:
        return f"{_speed(d.slowdown)}, which can be chance"
    return plain(d.gaps[0].why) if d.gaps else "too little was seen"


def _speed(slow: Slowdown) -> str:
    """`17.7 tok/s, was 73.5`; metrics other than plain output speed say which they are."""
    named = "" if slow.metric == "output_tok_s" else f"{label(slow.metric)} "
    return f"{named}{value(slow.metric, slow.now)}, was {bare(slow.metric, slow.was)}"


def _moved(d: Diagnosis, slow: Slowdown) -> bool:
    like = (x for x in d.comparison.deltas if (x.metric, x.was, x.now) == (slow.metric, slow.was, slow.now))
    return any(x.verdict in MOVED for x in like)


def _unlike(d: Diagnosis) -> str:
    said = [f.summary for f in d.findings if f.cause in ("workload.changed", "measurement.artifact")]
    return plain((said or list(d.comparison.unlike) or ["the two sides do not measure the same thing"])[0])


def _suspicion(d: Diagnosis) -> str:
    first = next(iter(loud(d)), None)
    if first is not None and first.cause == "server.failing":
        return "the server does not serve as it should"
    found = f"{counted(len(loud(d)), 'cause')} found"
    measured = any(x.metric in SPEED for x in d.comparison.deltas)
    return f"{found}, a slow-down was not {'shown' if measured else 'measured'}"


def _no_number(d: Diagnosis) -> str:
    if d.verdict == "healthy" and d.comparison.was is None:
        return "nothing speaks against it (no baseline, so its speed was not judged)"
    return "as it was tuned" if d.verdict == "healthy" else "see below"


def about(d: Diagnosis) -> tuple[str, ...]:
    """The lines below the verdict: who was looked at, under which load, and against what."""
    who = " · ".join(x for x in (plain(d.target), engine(d.now), _time(plain(d.taken_at or ""))) if x)
    return tuple(line for line in (who, _conditions(d.slowdown), _against(d)) if line)


def _time(iso: str) -> str:
    """`2026-05-06 10:20 UTC`; other spellings as they are."""
    found = UTC.match(iso)
    return f"{found['day']} {found['minute']} UTC" if found else iso


def engine(s: Snapshot) -> str:
    """`vLLM 0.20.1`."""
    return plain(f"{ENGINES.get(s.engine or '', s.engine or '')} {s.version or ''}".strip())


def _conditions(slow: Slowdown | None) -> str:
    if slow is None:
        return ""
    load = plain(slow.workload) if slow.workload else "the traffic it served"
    return f"{label(slow.metric)}, {load}{at(slow.concurrency)}"


def at(concurrency: float | None) -> str:
    """`, 1 request at a time`, `, 8 at a time`."""
    if concurrency is None:
        return ""
    return ", 1 request at a time" if concurrency == 1 else f", {concurrency:g} at a time"


def then(d: Diagnosis) -> str:
    """What the other side is called in tables."""
    return "tuned" if d.comparison.basis == "baseline" else "before"


def _against(d: Diagnosis) -> str:
    why = f" ({plain(d.baseline_why)})" if d.baseline_why else ""
    was = d.comparison.was
    if was is None:
        return f"no baseline{why}: only what is telling by itself"
    if d.comparison.basis == "previous boot":
        return f"against the previous start in the same log{why}"
    kind = f": {engine(was)}" if engine(was) else ""
    return f"against {plain(d.baseline or was.name)}{kind}{', published single values' if was.published else ''}{why}"


# -- findings ---------------------------------------------------------------------------------------------------------


def loud(d: Diagnosis) -> tuple[Finding, ...]:
    """Findings to act on, gravest first as they were ranked."""
    return tuple(f for f in d.findings if f.severity != "info" and f.confidence >= LOUD)


def quiet(d: Diagnosis) -> tuple[Finding, ...]:
    """Findings to keep in mind."""
    return tuple(f for f in d.findings if f not in loud(d))


def sure(confidence: float) -> str:
    """`likely (72%)`."""
    word = next((w for limit, w in SURE if confidence >= limit), "to check")
    return f"{word} ({percent(confidence)})"


def known(k: KnownIssue) -> str:
    """`torch 2.7 is slow on Turing (much slower than 2.6 …)`; a size that nobody published is left out."""
    return k.title if k.size == "not published" else f"{k.title} ({k.size})"


def effects(f: Finding) -> tuple[str, ...]:
    """`spec.acceptance_collapse: far fewer drafted tokens are accepted …`."""
    known = causes()
    return tuple(f"{plain(e)}: {_lowered(known[e].means)}" if e in known else plain(e) for e in f.effects)


def _lowered(means: str) -> str:
    # what follows a semicolon there is for the authors of rules; "CUDA graphs" keeps its capitals
    sentence = means.split(";")[0].rstrip(".")
    return sentence if sentence[1:2].isupper() else sentence[:1].lower() + sentence[1:]


def is_command(step: str) -> bool:
    """Whether a step is typed into a shell rather than read."""
    return COMMAND_LINE.match(step) is not None


def where(e: Evidence) -> str:
    """`server.log:412`."""
    return f"{plain(e.source)}:{e.line}" if e.line is not None else plain(e.source)


# -- what differs -----------------------------------------------------------------------------------------------------


def setting(s: Setting | None) -> str:
    """The value of a setting in a table."""
    return "not set" if s is None else plain(said(s.value))


def said(x: Any) -> str:
    """A value of a setting as people write it."""
    if isinstance(x, bool):
        return "on" if x else "off"
    if isinstance(x, (tuple, list)):
        return " ".join(said(i) for i in x) or "none"
    if isinstance(x, float):
        return f"{x:g}"
    return "unknown" if x is None else str(x)


def difference(d: Drift) -> tuple[str, str, str]:
    """Key, then, now."""
    return plain(d.key), setting(d.was), setting(d.now)


def moved_first(deltas: Sequence[Delta]) -> tuple[Delta, ...]:
    """Numbers that say something, the gravest first; the same ones are only counted."""
    order = {"worse": 0, "minor": 1, "better": 2, "unsure": 3}
    return tuple(sorted((d for d in deltas if d.verdict in order), key=lambda d: (order[d.verdict], d.factor)))


def number_row(d: Delta, among: Sequence[Delta] = ()) -> tuple[str, str, str, str]:
    """Name with conditions, then, now, verdict; a percent only beside one that states a difference.

    A number of each prompt says so where that of the whole round stands `among` the others.
    """
    twins = [x for x in among if (x.metric, x.workload, x.concurrency) == (d.metric, d.workload, d.concurrency)]
    each = " each" if d.paired and not all(x.paired for x in twins) else ""
    load = f", {plain(d.workload)}" if d.workload else ""
    many = "" if d.concurrency is None else f" x{d.concurrency:g}"
    judged = f"{d.verdict}, {_change(d)}" if d.verdict in MOVED else d.verdict
    return f"{label(d.metric)}{load}{many}{each}", bare(d.metric, d.was), value(d.metric, d.now), judged


def _change(d: Delta) -> str:
    """In words that fit the number: speeds get slower, everything else less or more."""
    if d.metric in SPEED or d.metric in ("decode_tok_s", "step_time_ms"):
        return pace(d.factor)
    if not d.was > 0 or not math.isfinite(d.now):
        return "from nothing" if d.now > 0 else "not known how much"
    ratio = d.now / d.was
    if ratio < 1:
        return f"{percent(1 - ratio)} less"
    return f"{percent(ratio - 1)} more" if ratio < 3 else f"{times(ratio)} as much"


def warning(s: Signal) -> str:
    """A log line that the baseline did not have."""
    return f"{where(s.evidence)}{f' ({s.count}x)' if s.count > 1 else ''}"


# -- how much was looked at -------------------------------------------------------------------------------------------


def tally(d: Diagnosis) -> str:
    """`3 metrics worse, 12 metrics the same; 41 settings, 6 differences; 2 gaps`."""
    return "; ".join(x for x in (_metrics(d), _settings(d), counted(len(d.gaps), "gap")) if x)


def _metrics(d: Diagnosis) -> str:
    count = Counter[str](x.verdict for x in d.comparison.deltas)
    words = {"worse": "worse", "minor": "a little worse", "better": "better", "unsure": "unsure", "same": "the same"}
    return ", ".join(f"{counted(count[k], 'metric')} {w}" for k, w in words.items() if count[k]) or "no metric compared"


def _settings(d: Diagnosis) -> str:
    known, differ = len(d.now.settings), len(d.comparison.drifts)
    if not known:
        return ""
    if d.comparison.was is None:
        return counted(known, "setting")
    return f"{counted(known, 'setting')}, {counted(differ, 'difference') if differ else 'no difference'}"


def sources(d: Diagnosis) -> str:
    """The files that were read."""
    return ", ".join(plain(s) for s in d.now.sources)
