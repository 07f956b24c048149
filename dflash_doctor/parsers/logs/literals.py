"""What a line must contain for a pattern to match it: the literals that let us skip a line without running its regex.

`^Using FlashAttention version (?P<fa>\\d)$` can only match a text that starts with "Using FlashAttention version ".
"""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# the parser behind re.compile moved in Python 3.11; it is not part of the typed interface
NEW = sys.version_info >= (3, 11)
sre: Any = importlib.import_module("re._constants" if NEW else "sre_constants")
sre_parse: Any = importlib.import_module("re._parser" if NEW else "sre_parse")

MIN_USEFUL = 3  # a shorter literal is in nearly every line
MAX_CHOICES = 24  # alternatives of one pattern; beyond it running the regex is cheaper than looking for them all


@dataclass(frozen=True)
class Literals:
    """`starts`: the text begins with one of these. `needs`: it contains one of these. Empty: nothing is known."""

    starts: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


def of(pattern: str) -> Literals:
    """The literals of one regex; the longest that every match must have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = sre_parse.parse(pattern)
    if tree.state.flags & re.IGNORECASE:
        return Literals()
    return Literals(starts=_starts(tree), needs=_needs(tree))


def _starts(tree: Sequence[Any]) -> tuple[str, ...]:
    """Every string that an anchored pattern can begin with, when that is a short list."""
    if not tree or tree[0] != (sre.AT, sre.AT_BEGINNING):
        branches = _branches(tree[0]) if len(tree) == 1 else None
        if branches is None:
            return ()
        found = [_starts(b) for b in branches]  # ^a|^b
        return tuple(s for f in found for s in f) if all(found) else ()
    heads = _heads(tree[1:])
    return heads if heads and all(len(h) >= MIN_USEFUL for h in heads) else ()


def _heads(tree: Sequence[Any]) -> tuple[str, ...]:
    heads: tuple[str, ...] = ("",)
    for item in tree:
        texts = _texts(item)
        if texts is None:
            inner = _branches(item)
            # the heads of a group end the list: what follows it is not known to be next
            if inner is not None:
                tails = tuple(t for b in inner for t in (_heads(b) or ("",)))
                if len(heads) * len(tails) <= MAX_CHOICES:
                    heads = tuple(h + t for h in heads for t in tails)
            break
        heads = tuple(h + t for h in heads for t in texts)
        if len(heads) > MAX_CHOICES:
            break
    return heads


def _needs(tree: Sequence[Any]) -> tuple[str, ...]:
    """One of these is in every match; chosen so that the shortest of them is as long as possible."""
    best: tuple[str, ...] = ()
    run: tuple[str, ...] = ("",)
    for item in [*tree, None]:
        texts = _texts(item) if item is not None else None
        if texts is not None and len(run) * len(texts) <= MAX_CHOICES:
            run = tuple(r + t for r in run for t in texts)
            continue
        best = _better(best, run)
        run = texts if texts is not None else ("",)
        if texts is None and item is not None:
            inner = _branches(item)
            if inner is not None:
                found = [_needs(b) for b in inner]
                if all(found) and sum(map(len, found)) <= MAX_CHOICES:
                    best = _better(best, tuple(s for f in found for s in f))
    return best if best and min(map(len, best)) >= MIN_USEFUL else ()


def _better(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    return b if min(map(len, b), default=0) > min(map(len, a), default=0) else a


def _texts(item: Any) -> tuple[str, ...] | None:
    """The texts that one element of a pattern stands for, when they are few and plain."""
    kind, value = item
    if kind is sre.LITERAL:
        return (chr(value),)
    if kind is sre.IN and len(value) <= 3 and all(k is sre.LITERAL for k, _ in value):
        return tuple(chr(v) for _, v in value)
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        low, high, inner = value
        one = _joined(inner) if (low, high) == (0, 1) else None
        return ("", *one) if one else None
    if kind is sre.SUBPATTERN:
        return _joined(value[-1])
    if kind is sre.BRANCH:
        found = [_joined(b) for b in value[1]]
        texts = tuple(t for f in found if f is not None for t in f)
        return texts if all(f is not None for f in found) and len(texts) <= MAX_CHOICES else None
    return None


def _joined(tree: Sequence[Any]) -> tuple[str, ...] | None:
    out: tuple[str, ...] = ("",)
    for item in tree:
        texts = _texts(item)
        if texts is None or len(out) * len(texts) > MAX_CHOICES:
            return None
        out = tuple(o + t for o in out for t in texts)
    return out


def _branches(item: Any) -> list[Sequence[Any]] | None:
    """The alternatives of a group that must be there (one alternative for a plain group)."""
    kind, value = item
    if kind is sre.SUBPATTERN:
        inner = list(value[-1])
        return _branches(inner[0]) or [inner] if len(inner) == 1 else [inner]
    if kind is sre.BRANCH:
        return [list(b) for b in value[1]]
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[0] >= 1:
        return [list(value[2])]
    return None
