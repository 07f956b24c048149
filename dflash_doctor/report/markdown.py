"""The report in Markdown, ready for an issue or a chat: the same content, long evidence folded.

What a host wrote stands in code, fenced by more backticks than it holds itself, so that it stays text wherever this is
pasted; prose is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dflash_doctor import __version__
from dflash_doctor.model import Diagnosis, Finding
from dflash_doctor.report import left, receipt, words
from dflash_doctor.report.hosttext import excerpt, plain, telling

EVIDENCE, DRIFTS, NUMBERS, WARNINGS = 10, 30, 30, 10
LONGEST = 500  # characters of one evidence line: an issue has a limit, and a reader too
# what is markup anywhere in a line (an underscore only at the edge of a word), and what is at its begin
MARKUP = re.compile(r"[\\`*~\[]|(?<![^\W_])_|_(?![^\W_])|^(?:[#+=>-]|\d+(?=[.)]\s))|(?<=:)//")
BARE = re.compile(r"(?:[A-Za-z0-9 .,%=]|(?<=\w)[-_/:](?=\w))*")  # cells that need no code around them
TICKS = re.compile(r"`+")


def render(d: Diagnosis) -> str:
    """The whole report, with a newline at its end."""
    parts = (
        f"## {prose(words.verdict(d))}",
        "\n".join(f"* {prose(line)}" for line in words.about(d)),
        _receipt(d),
        *(_finding(i, f, d) for i, f in enumerate(d.findings, 1)),
        *(
            _list(f"Not explained: {prose(left.unexplained(u))}", [prose(": ".join(row)) for row in left.suspects(u)])
            for u in d.unexplained
        ),
        _list("Differences that no cause speaks of", [code(x) for x in left.differences(d.leads)]),
        prose(left.plan(d)),
        _table(left.carry_title(d), ("setting", "tuned -> now", "write"), left.carry(d), DRIFTS),
        _table(
            "What differs",
            ("setting", words.then(d), "now"),
            [words.difference(x) for x in d.comparison.drifts],
            DRIFTS,
        ),
        _numbers(d),
        _warnings(d),
        _list("Notes", [prose(plain(n)) for n in d.notes]),
        _list("Could not be seen", [f"{code(plain(g.what))}: {prose(plain(g.why))}" for g in d.gaps]),
        f"{prose(words.tally(d))}. dflash-doctor {__version__}.",
    )
    return "\n\n".join(p for p in parts if p) + "\n"


# -- text that stays text ---------------------------------------------------------------------------------------------


def prose(text: str) -> str:
    """A sentence in which nothing is markup, HTML or a mention."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;")
    return MARKUP.sub(_escaped, safe).replace("@", "@\u200b")


def _escaped(found: re.Match[str]) -> str:
    mark = found.group()
    return f"{mark}\\" if mark.isdigit() else f"\\{mark}"


def code(text: str) -> str:
    """Text within a line, as code."""
    ticks = "`" * (_longest(text) + 1)
    edge = " " if text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    return f"{ticks}{edge}{text or ' '}{edge}{ticks}"


def fence(rows: Sequence[str], language: str = "text") -> str:
    """Lines as a block of code."""
    ticks = "`" * max(3, 1 + max(map(_longest, rows), default=0))
    return "\n".join((f"{ticks}{language}", *rows, ticks))


def _longest(text: str) -> int:
    return max((len(t) for t in TICKS.findall(text)), default=0)


def _cell(text: str) -> str:
    # a bar ends a cell even inside code
    return text if BARE.fullmatch(text) and "www." not in text else code(text).replace("|", "\\|")


# -- parts ------------------------------------------------------------------------------------------------------------


def _receipt(d: Diagnosis) -> str:
    slow = d.slowdown
    if slow is None or not slow.parts or d.verdict in ("healthy", "not_comparable"):
        return ""
    rows = [(r.name, r.shown, r.factor, r.by or "") for r in receipt.waterfall(d)]
    notes = "\n".join(f"* {prose(n)}" for n in receipt.notes(d))
    table = _table("", ("step", "speed", "factor", "put down to"), rows, len(rows))
    return "\n\n".join(x for x in (f"**{prose(receipt.sentence(slow))}**", table, notes) if x)


def _finding(rank: int, f: Finding, d: Diagnosis) -> str:
    share = receipt.share(f, d.slowdown)
    facts = [
        prose(plain(f.summary)),
        f"share: {prose(share)}" if share else "",
        *(f"against: {prose(plain(a))}" for a in f.against),
        *(f"explains {prose(e)}" for e in words.effects(f)),
        *(f"known: {prose(words.known(k))}, <{k.link}>; way out: {prose(k.way_out)}" for k in f.known),
    ]
    head = f"### {rank}. {prose(plain(f.cause))}: {f.severity}, {prose(words.sure(f.confidence))}"
    body = "\n".join(f"* {x}" for x in facts if x)
    return "\n\n".join(x for x in (head, body, _steps(f), _evidence(f)) if x)


def _steps(f: Finding) -> str:
    steps = [plain(s) for s in f.next_steps]
    commands = [s for s in steps if words.is_command(s)]
    sentences = "\n".join(f"* {prose(s)}" for s in steps if s not in commands)
    parts = [x for x in (sentences, fence(commands, "sh") if commands else "") if x]
    return "\n\n".join(("Try:", *parts)) if parts else ""


def _evidence(f: Finding) -> str:
    clues = telling(f.summary)
    rows = [f"{words.where(e)}  {excerpt(e.text, LONGEST, clues)}" for e in f.evidence[:EVIDENCE]]
    return _folded(f"Evidence ({len(f.evidence)})", fence(rows)) if rows else ""


def _warnings(d: Diagnosis) -> str:
    fresh = d.comparison.fresh
    rows = [f"{words.warning(s)}  {excerpt(s.evidence.text, LONGEST, {})}" for s in fresh[:WARNINGS]]
    return _folded(f"New in the log since the baseline ({len(fresh)})", fence(rows)) if rows else ""


def _folded(title: str, body: str) -> str:
    # the empty lines make it Markdown again inside the HTML
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _numbers(d: Diagnosis) -> str:
    rows = [words.number_row(x, d.comparison.deltas) for x in words.moved_first(d.comparison.deltas)]
    return _table("Numbers", ("metric", words.then(d), "now", "verdict"), rows, NUMBERS)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], most: int) -> str:
    if not rows:
        return ""
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows[:most]]
    more = f"\n\nand {len(rows) - most:,} more" if len(rows) > most else ""
    return (f"### {title}\n\n" if title else "") + "\n".join(lines) + more


def _list(title: str, rows: Sequence[str]) -> str:
    return f"### {title}\n\n" + "\n".join(f"* {r}" for r in rows) if rows else ""
