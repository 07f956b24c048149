"""Words of shell text: commands, quotes, continued lines, comments. Kind to what people paste, and linear.

Not a shell: nothing is expanded, `$MODEL` stays as it is. JSON that lost its quotes on the way (`ps` prints it so)
is kept whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 262_144  # characters looked at; a launch line is a few thousand

# a quote that is never closed runs to the end of the text, so that every alternative ends where the next begins
_TOKEN = re.compile(
    r"""(?P<continued>\\\r?\n)
      | (?P<blank>[^\S\n]+)
      | (?P<end>\n|;|&&|\|\|?|&(?=\s|\Z))
      | (?P<single>'[^']*(?:'|\Z))
      | (?P<double>"(?:[^"\\]|\\.)*(?:"|\\?\Z))
      | (?P<escaped>\\.?)
      | (?P<hash>\#)
      | (?P<brace>\{(?=\s*["'}]))
      | (?P<plain>[^\s'"\\;&|#{]+|&|\{)
    """,
    re.X | re.S,
)
_LINE = re.compile(r"[^\n]*")
_IN_DOUBLE = re.compile(r'\\(["\\$`]|\n)')
_JSON = re.compile(r"""\{|\}|"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[^{}"]+""", re.S)


@dataclass(frozen=True)
class Command:
    """One command of the text."""

    words: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Shell:
    """All commands, and whether a quote was left open."""

    commands: tuple[Command, ...]
    unclosed: bool = False


def read(text: str) -> Shell:
    """Splits shell text into commands and words."""
    reader = _Reader(text[:LONGEST])
    reader.run()
    return Shell(tuple(reader.commands), reader.unclosed)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.commands: list[Command] = []
        self.words: list[str] = []
        self.parts: list[str] | None = None  # of the word being read; None between words
        self.line = 1
        self.began = 1
        self.unclosed = False
        self.braces = True  # whether loose JSON is still worth looking for

    def run(self) -> None:
        at = 0
        while at < len(self.text):
            found = _TOKEN.match(self.text, at)
            if found is None:  # cannot happen: every character starts some token
                break
            at = self.take(found.lastgroup or "", found[0], at, found.end())
        self.end_command()

    def take(self, kind: str, token: str, start: int, end: int) -> int:
        newlines = token.count("\n")
        if kind == "blank" or kind == "continued":
            self.end_word()
        elif kind == "end":
            self.end_command()
        elif kind == "hash":
            if self.parts is None:  # a comment, to the end of its line
                comment = _LINE.match(self.text, start)
                return comment.end() if comment else end
            self.add(token)
        elif kind == "brace":
            end, newlines = self.loose_json(start, end)
        else:
            self.add(self.unquoted(kind, token))
        self.line += newlines
        return end

    def unquoted(self, kind: str, token: str) -> str:
        if kind == "single":
            closed = len(token) > 1 and token.endswith("'")
            self.unclosed |= not closed
            return token[1:-1] if closed else token[1:]
        if kind == "double":
            closed = len(token) > 1 and token.endswith('"')
            self.unclosed |= not closed
            return _IN_DOUBLE.sub(r"\1", token[1:-1] if closed else token[1:])
        return token[1:] if kind == "escaped" else token

    def loose_json(self, start: int, end: int) -> tuple[int, int]:
        """`{"method": "mtp", "k": 3}` without quotes around it is one word."""
        if self.braces and (self.parts is None or self.parts[-1].endswith("=")):
            depth = 0
            for piece in _JSON.finditer(self.text, start):
                depth += (piece[0] == "{") - (piece[0] == "}")
                if depth == 0:
                    self.add(self.text[start : piece.end()])
                    return piece.end(), self.text.count("\n", start, piece.end())
            self.braces = False  # never closed: no later one need be tried
        self.add("{")
        return end, 0

    def add(self, part: str) -> None:
        if self.parts is None:
            self.parts = []
            if not self.words:
                self.began = self.line
        self.parts.append(part)

    def end_word(self) -> None:
        if self.parts is not None:
            self.words.append("".join(self.parts))
            self.parts = None

    def end_command(self) -> None:
        self.end_word()
        if self.words:
            self.commands.append(Command(tuple(self.words), self.began))
            self.words = []
