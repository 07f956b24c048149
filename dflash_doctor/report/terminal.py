"""The report at a terminal: the verdict, the receipt, findings gravest first, what differs, what could not be seen.

Quiet when all is well. Colour repeats a word that is already there, so that nothing is lost in a pipe. Commands stand
on lines of their own and are never broken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from dflash_doctor.model import Comparison, Diagnosis, Evidence, Finding
from dflash_doctor.report import left, receipt, words
from dflash_doctor.report.hosttext import COMMON, excerpt, pattern, plain, telling
from dflash_doctor.report.layout import bar, columns, entry, hang, text_of, whole, widest

WIDTH, NARROWEST, WIDEST = 80, 40, 110  # longer lines are hard to read however wide the terminal is
EVIDENCE, KNOWN, DRIFTS, NUMBERS, WARNINGS, GAPS, LEADS = 6, 3, 10, 12, 5, 12, 6  # rows shown, the rest is counted
SOURCE_WIDTH = 18
SHORTEST_BAR, DRAWN_FROM = 12, 60
VERDICT_STYLE = {
    "healthy": "bold green", "minor": "bold yellow", "regressed": "bold red", "unconfirmed": "bold yellow",
    "suspect": "bold yellow", "inconclusive": "bold magenta", "not_comparable": "bold magenta",
}  # fmt: skip
SEVERITY_STYLE = {"critical": "bold red", "warning": "bold yellow", "info": "bold"}
Sides = tuple[str, str]  # what the two columns of values are called
AB: Sides = ("A", "B")
HEAD, COMMAND, SOURCE, TELLING = "bold", "bold cyan", "cyan", "bold"


def render(d: Diagnosis, *, width: int | None = None, color: bool = False, encoding: str = "utf-8") -> str:
    """The whole report as text."""
    return text_of(lines(d, width or WIDTH), color=color, encoding=encoding)


def show(d: Diagnosis, console: Console) -> None:
    """The whole report on the terminal, file or pipe behind a console."""
    color = console.color_system is not None and not console.no_color and not console.legacy_windows
    console.file.write(render(d, width=console.width, color=color, encoding=console.encoding))


def differences(c: Comparison, console: Console) -> None:
    """What differs between A and B, and nothing else: settings, then numbers."""
    d = Diagnosis(target=c.now.name, verdict="healthy", comparison=c)
    width = max(NARROWEST, min(console.width, WIDEST))
    parts = [x for x in (_differences(d, width, AB), _numbers(d, width, AB)) if x]
    if not parts:
        parts = [[Text("no difference was found")]]
    for i, part in enumerate(parts):
        for line in ([Text()] if i else []) + part:
            console.print(line, soft_wrap=True)
    console.print(Text(words.tally(d)), soft_wrap=True)


def lines(d: Diagnosis, width: int) -> list[Text]:
    """The report line by line."""
    width = min(max(width, NARROWEST), WIDEST)
    if d.verdict == "healthy":
        sections: tuple[Callable[[Diagnosis, int], list[Text]], ...] = (_head, _remarks, _notes, _gaps, _looked)
    else:
        sections = (
            _head,
            _receipt,
            _findings,
            _left,
            _carry,
            _remarks,
            _differences,
            _numbers,
            _warnings,
            _notes,
            _gaps,
            _looked,
        )
    parts = [part for part in (section(d, width) for section in sections) if part]
    return [line for i, part in enumerate(parts) for line in ([Text()] if i else []) + part]


# -- the verdict and where the speed went -----------------------------------------------------------------------------


def _head(d: Diagnosis, width: int) -> list[Text]:
    first = Text(words.verdict(d))
    first.stylize(VERDICT_STYLE.get(d.verdict, "bold"), 0, len(d.verdict))
    return [*hang(first, width), *(x for line in words.about(d) for x in hang(line, width, "  "))]


def _receipt(d: Diagnosis, width: int) -> list[Text]:
    slow = d.slowdown
    if slow is None or not slow.parts or d.verdict == "not_comparable":
        return []
    notes = [x for note in receipt.notes(d) for x in hang(note, width, "  ")]
    return [*hang(receipt.sentence(slow), width, style=HEAD), *_waterfall(d, width), *notes]


def _waterfall(d: Diagnosis, width: int) -> list[Text]:
    rows = receipt.waterfall(d)
    if not rows or width < DRAWN_FROM:
        return []
    cells = [(f"  {r.name}", r.shown, r.factor, r.by) for r in rows]
    name, *behind = widest(cells, width - SHORTEST_BAR - 2)
    length = width - name - sum(behind) - 2 * len(cells[0])
    drawn = [(first, bar(r.begin, r.end, length), *rest) for r, (first, *rest) in zip(rows, cells, strict=True)]
    return columns(drawn, (name, length, *behind))


# -- findings ---------------------------------------------------------------------------------------------------------


def _findings(d: Diagnosis, width: int) -> list[Text]:
    out: list[Text] = []
    shown: set[Evidence] = set()
    for f in words.loud(d):
        out += [*([Text()] if out else []), *_finding(d, f, shown, width)]
        shown |= set(f.evidence)
    if out:
        first = words.loud(d)[0].cause
        out += [Text(), *whole(f"dflash-doctor explain {plain(first)}", "more:  ", COMMAND)]
    return out


def _finding(d: Diagnosis, f: Finding, shown: Set[Evidence], width: int) -> list[Text]:
    lead = f"{d.findings.index(f) + 1}. "
    pad = " " * len(lead)
    title = Text(f"{plain(f.cause)}  ", style=HEAD)
    title.append(f.severity, style=SEVERITY_STYLE.get(f.severity, ""))
    title.append(f"  {words.sure(f.confidence)}", style="not bold")
    out = hang(title, width, lead)
    if plain(f.summary) not in words.verdict(d):
        out += hang(plain(f.summary), width, pad)
    share = receipt.share(f, d.slowdown)
    if share:
        out += hang(share, width, f"{pad}share    ")
    out += _evidence(f, shown, width, f"{pad}seen     ")
    for line in f.against:
        out += hang(plain(line), width, f"{pad}against  ")
    for line in words.effects(f):
        out += hang(line, width, f"{pad}explains ")
    return out + _known(f, width, f"{pad}known    ") + _steps(f.next_steps, width, f"{pad}try      ")


def _known(f: Finding, width: int, lead: str) -> list[Text]:
    """What upstream knows of it, each with its address in one piece and the way out."""
    out: list[Text] = []
    for k in f.known[:KNOWN]:
        out += hang(words.known(k), width, _first(lead, out))
        out += whole(k.link, " " * len(lead), SOURCE) + hang(f"way out: {k.way_out}", width, " " * len(lead))
    return out + _more(f.known, KNOWN, width, _first(lead, out))


def _evidence(f: Finding, shown: Set[Evidence], width: int, lead: str) -> list[Text]:
    """The lines behind a finding; those that stand under an earlier one are only named."""
    fresh = [e for e in f.evidence if e not in shown]
    again = ", ".join(dict.fromkeys(words.where(e) for e in f.evidence if e in shown))
    clues = telling(f.summary, f.cause.replace(".", " ").replace("_", " "))
    column = _column([words.where(e) for e in fresh], width)
    out: list[Text] = []
    for e in fresh[:EVIDENCE]:
        out += _evidence_line(e, clues, column, width, _first(lead, out))
    out += _more(fresh, EVIDENCE, width, _first(lead, out))
    return out + (hang(f"{again} as above", width, _first(lead, out)) if again else [])


def _evidence_line(e: Evidence, clues: Mapping[str, int], column: int, width: int, lead: str) -> list[Text]:
    """Source and line, then what was written there around its telling part, on two lines at most."""
    text = Text(excerpt(e.text, 2 * max(width - len(lead) - column - 2, 10) - 4, clues))
    found = pattern(w for w, worth in clues.items() if worth > COMMON)
    if found is not None:
        text.highlight_regex(found, TELLING)
    return entry(words.where(e), text, column, width, lead, SOURCE)


def _first(lead: str, before: Sequence[Text]) -> str:
    """A word in the margin stands at the first line only."""
    return " " * len(lead) if before else lead


def _steps(steps: Sequence[str], width: int, lead: str) -> list[Text]:
    out: list[Text] = []
    for step in map(plain, steps):
        begin = _first(lead, out)
        out += whole(step, begin, COMMAND) if words.is_command(step) else hang(step, width, f"{begin}- ")
    return out


def _left(d: Diagnosis, width: int) -> list[Text]:
    """Losses that no root answers for, what was looked at, and the way to find out."""
    out: list[Text] = []
    for u in d.unexplained:
        out += [Text(f"Not explained: {left.unexplained(u)}", style=HEAD)]
        rows = left.suspects(u)
        column = _column([name for name, _ in rows], width)
        out += [x for name, body in rows for x in entry(name, body, column, width, "  ")]
    if d.leads:
        out += [Text("Differences that no cause speaks of, the likeliest first", style=HEAD)]
        for i, line in enumerate(left.differences(d.leads[:LEADS]), 1):
            out += hang(line, width, f"  {i}. ")
        out += _more(d.leads, LEADS, width, "  ") + (hang(left.plan(d), width, "  try  ") if left.plan(d) else [])
    return out


def _carry(d: Diagnosis, width: int) -> list[Text]:
    """What the tuned side had and this engine has to be told."""
    rows = left.carry(d)
    if not rows:
        return []
    out = hang(left.carry_title(d), width, style=HEAD)
    for title, change, write in rows[:LEADS]:
        out += hang(f"{title}: {change}", width, "  ")
        out += whole(write, "    ", COMMAND) if write.startswith("-") or "=" in write else hang(write, width, "    ")
    return out + _more(rows, LEADS, width, "  ")


def _remarks(d: Diagnosis, width: int) -> list[Text]:
    """Findings that are no more than worth a look: short."""
    found = words.quiet(d)
    if not found:
        return []
    out = [Text("Also seen", style=HEAD)]
    for f in found:
        title = Text(f"{plain(f.cause)}  ", style=HEAD).append(words.sure(f.confidence), style="not bold")
        out += hang(title, width, f"{d.findings.index(f) + 1}. ")
        out += hang(plain(f.summary), width, "   ")
        out += [x for line in f.against for x in hang(plain(line), width, "   against  ")]
        if d.verdict != "healthy":
            out += _evidence(replace(f, evidence=f.evidence[:1]), frozenset(), width, "   seen     ")
            out += _known(f, width, "   known    ")
            out += _steps(f.next_steps[:1], width, "   try      ")
    return out


# -- what differs -----------------------------------------------------------------------------------------------------


def _differences(d: Diagnosis, width: int, sides: Sides | None = None) -> list[Text]:
    drifts = d.comparison.drifts
    rows = [words.difference(x) for x in drifts[:DRIFTS]]
    was, now = sides or (words.then(d), "now")
    return _table("What differs", ("setting", was, now), rows, drifts, width)


def _numbers(d: Diagnosis, width: int, sides: Sides | None = None) -> list[Text]:
    deltas = words.moved_first(d.comparison.deltas)
    rows = [words.number_row(x, d.comparison.deltas) for x in deltas[:NUMBERS]]
    was, now = sides or (words.then(d), "now")
    return _table("Numbers", ("metric", was, now, "verdict"), rows, deltas, width)


def _table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], every: Sequence[object], width: int
) -> list[Text]:
    if not rows:
        return []
    # the title takes the place of the first column's name
    table = [(title, *head[1:]), *rows]
    out = columns(table, widest(table, width - 2), "")
    out[0].stylize(HEAD)
    return out + _more(every, len(rows), width, "")


def _warnings(d: Diagnosis, width: int) -> list[Text]:
    """Warnings that the baseline did not have and no finding shows yet."""
    shown = {(e.source, e.line, e.text) for f in d.findings for e in f.evidence}
    fresh = [s for s in d.comparison.fresh if (s.evidence.source, s.evidence.line, s.evidence.text) not in shown]
    if not fresh:
        return []
    out = [Text("New in the log since the baseline", style=HEAD)]
    column = _column([words.warning(s) for s in fresh[:WARNINGS]], width)
    for s in fresh[:WARNINGS]:
        out += entry(words.warning(s), excerpt(s.evidence.text, width - column - 4, {}), column, width, "  ", SOURCE)
    return out + _more(fresh, WARNINGS, width, "  ")


# -- what could not be seen, and how much was looked at ---------------------------------------------------------------


def _notes(d: Diagnosis, width: int) -> list[Text]:
    return [x for note in d.notes for x in hang(plain(note), width, "note: ")]


def _gaps(d: Diagnosis, width: int) -> list[Text]:
    if not d.gaps:
        return []
    shown = d.gaps[:GAPS]
    column = _column([plain(g.what) for g in shown], width)
    out = [Text("Could not be seen", style=HEAD)]
    for g in shown:
        out += entry(plain(g.what), plain(g.why), column, width, "  ")
    return out + _more(d.gaps, GAPS, width, "  ")


def _looked(d: Diagnosis, width: int) -> list[Text]:
    read = words.sources(d)
    return [*hang(words.tally(d), width), *(hang(read, width, "read: ") if read else [])]


def _column(names: Sequence[str], width: int) -> int:
    return min(max(map(len, names), default=0), SOURCE_WIDTH, width // 4)


def _more(every: Sequence[object], shown: int, width: int, lead: str) -> list[Text]:
    left = len(every) - shown
    return hang(f"and {left:,} more (--format json has all)", width, lead) if left > 0 else []
