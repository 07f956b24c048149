"""Reads a configuration as Python prints it: `model='x', tp=2, cc={'mode': <Mode.NONE: 0>}, spec=SpecConfig(k=4)`.

Engines log their configuration this way and vLLM's /server_info gives it so. One pass, no evaluation, any depth up to a
limit: what cannot be understood stays text, what is cut off ends where the text does.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

DEEPEST = 24

# every alternative but the text ends at the next mark, and a text without its closing quote runs to the end: linear
_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.)*(?:'|\\?\Z)|"(?:[^"\\]|\\.)*(?:"|\\?\Z))
      | (?P<enum><[^<>]*>)
      | (?P<open>[\[({])
      | (?P<close>[\])}])
      | (?P<comma>,)
      | (?P<equals>=)
      | (?P<colon>:)
      | (?P<bare>[^\s,=:\[\](){}'"<>][^\s,=:\[\](){}<>]*)
      | (?P<stray>[<>])
    """,
    re.X | re.S,
)
_WORDS = {"None": None, "True": True, "False": False, "null": None, "true": True, "false": False}
_NUMBER = re.compile(r"[-+]?(?:\d{1,18}|\d{1,18}\.\d{0,18}(?:[eE][-+]?\d{1,3})?|\d{1,18}[eE][-+]?\d{1,3})$")
_ENUM = re.compile(r"<(?:\w+\.)*(?P<name>\w+): ")  # <CUDAGraphMode.NONE: 0>
_CLOSING = {"[": "]", "(": ")", "{": "}"}


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


_END = _Token("end", "", -1, -1)


def read_config(text: str) -> dict[str, Any]:
    """Names and values of a configuration in Python's print; nested ones are dicts, lists are lists."""
    items = _Reader(text).items("equals", 0)
    if len(items) == 1 and items[0][0] is None and isinstance(items[0][1], dict):
        return items[0][1]  # the whole text was one {…} or Config(…)
    return {name: value for name, value in items if name is not None}


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = [_Token(m.lastgroup or "", m[0], *m.span()) for m in _TOKEN.finditer(text)]
        self.at = 0

    def peek(self) -> _Token:
        return self.tokens[self.at] if self.at < len(self.tokens) else _END

    def items(self, between: str, depth: int) -> list[tuple[str | None, Any]]:
        """Everything up to the closing bracket; `between` parts a name from its value."""
        found: list[tuple[str | None, Any]] = []
        while (token := self.peek()).kind != "end":
            if token.kind == "close":
                self.at += 1
                if depth:
                    return found
            elif token.kind in ("comma", "equals", "colon"):
                self.at += 1
            else:
                found.append(self.item(between, depth))
        return found

    def item(self, between: str, depth: int) -> tuple[str | None, Any]:
        value = self.value(between, depth)
        if self.peek().kind != between:
            return None, value
        self.at += 1
        if self.peek().kind in ("end", "comma", "close"):
            return str(value), ""
        return str(value), self.value(between, depth)

    def value(self, between: str, depth: int) -> Any:
        token = self.peek()
        self.at += 1
        if token.kind == "open":
            return self.nested(token.text, depth)
        if token.kind == "text":
            return token.text[1:].removesuffix(token.text[0]).replace("\\" + token.text[0], token.text[0])
        if token.kind == "enum":
            enum = _ENUM.match(token.text)
            return enum["name"] if enum else token.text
        return self.words(token, between, depth)

    def words(self, first: _Token, between: str, depth: int) -> Any:
        """A class call, or words: some values are printed with blanks or colons inside (http://localhost:4317)."""
        said = [first.text]
        last = first
        while (token := self.peek()).kind in ("bare", "stray", "equals", "colon", "open"):
            if token.kind == between:
                break
            if token.kind == "open":
                if token.text == "(" and token.start == last.end and len(said) == 1:
                    self.at += 1
                    return self.nested("(", depth)
                break
            said.append(token.text if token.start == last.end else " " + token.text)
            last = token
            self.at += 1
        return _plain("".join(said))

    def nested(self, opened: str, depth: int) -> Any:
        if depth >= DEEPEST:
            return self.skipped()
        items = self.items("colon" if opened == "{" else "equals", depth + 1)
        named = {name: value for name, value in items if name is not None}
        if len(named) == len(items) and (named or opened == "{"):
            return named
        if named and opened == "{":  # cut off in the middle of an item
            return named
        return [value if name is None else {name: value} for name, value in items]

    def skipped(self) -> str:
        """Steps over what is nested too deep."""
        level = 1
        while level and self.at < len(self.tokens):
            kind = self.tokens[self.at].kind
            level += (kind == "open") - (kind == "close")
            self.at += 1
        return "…"


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.match(text):
        return float(text) if re.search(r"[.eE]", text) else int(text)
    return text
