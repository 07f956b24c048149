"""What a host wrote, made harmless: it can neither restyle the terminal, nor reorder a line, nor be read as markup.

Log lines are evidence, so nothing disappears without a trace: colour codes go, since they say nothing, and every
other character that does not print is shown as its escape (`\\u202e`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

LONGEST = 20_000  # characters looked at; a longer line is one that no person reads
# ESC [ 1;31 m · ESC ] 0;title BEL · ESC ( B, and the one-byte forms of ESC [ and ESC ]
ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\x9d\n]*(?:\x07|\x1b\\|\x9c)|\x1b[ -/]*[0-~]?"
)
MARKS_IN_A_ROW = 3  # combining marks kept on one letter; more only smear over the lines above and below
_MARKS = r"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
SMEAR = re.compile(rf"({_MARKS}{{{MARKS_IN_A_ROW}}}){_MARKS}+")

WORD = re.compile(r"[^\W_][\w.\-/=]*")
LOOSE = frozenset("the and for its with was now not this that are has one than from here".split())  # noqa: SIM905
COMMON, NAMED = 1, 3  # what a word of a sentence and what a number or a name is worth as a clue
ELLIPSIS = "…"
# log prefixes end so: "… INFO 05-06 10:15:27 [metrics.py:101] ", "[2026-05-04 17:55:02 TP0] "
PREFIX_ENDS = "] "
PREFIX_LONGEST = 100


def plain(text: object) -> str:
    """One line of printable text."""
    found = str(text)
    if found.isprintable() and not SMEAR.search(found):
        return found if len(found) <= LONGEST else found[:LONGEST] + ELLIPSIS
    found = ANSI.sub("", found[:LONGEST] + (ELLIPSIS if len(found) > LONGEST else ""))
    found = "".join(c if c.isprintable() else " " if c.isspace() else _escaped(c) for c in found)
    return SMEAR.sub(r"\1", found).strip()


def _escaped(c: str) -> str:
    return f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"


def telling(*sentences: str) -> Mapping[str, int]:
    """Words to look for in evidence, from what is said about it: numbers and names tell most."""
    words: dict[str, int] = {}
    for word in (w.strip(".-/=") for s in sentences for w in WORD.findall(plain(s))):
        named = any(c.isdigit() for c in word) or "_" in word or "-" in word
        if len(word) > 2 and word.lower() not in LOOSE:
            words.setdefault(word.lower(), NAMED if named else COMMON)
    return dict(sorted(words.items(), key=lambda w: -w[1])[:40])


def pattern(words: Iterable[str]) -> re.Pattern[str] | None:
    """One expression that finds any of the words, whole; None for no words."""
    either = "|".join(re.escape(w) for w in sorted(words, key=len, reverse=True))
    return re.compile(rf"(?<![\w.])(?:{either})(?![\w])", re.IGNORECASE) if either else None


def excerpt(text: str, room: int, words: Mapping[str, int]) -> str:
    """At most `room` characters of a line, around its telling part, with … where something was left out."""
    line = plain(text)
    if len(line) <= room:
        return line
    start = _start(line, room, words)
    end = min(len(line), start + room - (1 if start else 0))
    if end < len(line):
        end -= 1
    return (ELLIPSIS if start else "") + line[start:end].strip() + (ELLIPSIS if end < len(line) else "")


def _start(line: str, room: int, words: Mapping[str, int]) -> int:
    """Where to begin: a little before the stretch that holds the most telling words, else behind the log prefix."""
    found = pattern(words)
    hits = [(m.start(), m.end(), m.group().lower()) for m in found.finditer(line)][:200] if found else []
    behind = line.find(PREFIX_ENDS, 0, PREFIX_LONGEST) + len(PREFIX_ENDS) if PREFIX_ENDS in line[:PREFIX_LONGEST] else 0
    if not hits:
        return behind
    lead = room // 3
    best, score = hits[0][0], -1
    for begin, _, _ in hits:
        within = {w for a, b, w in hits if begin <= a and b <= begin + room - lead - 2}
        worth = sum(words[w] for w in within)
        if worth > score:
            best, score = begin, worth
    start = max(best - lead, 0)
    if start <= behind <= best:
        return behind
    start = min(start, max(len(line) - room + 1, 0))
    space = line.find(" ", start, best)
    return space + 1 if start and space >= 0 else start
