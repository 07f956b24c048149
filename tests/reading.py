"""For tests of parsers: whatever the text, there are facts, or a reason in words; never a traceback."""

from __future__ import annotations

from collections.abc import Callable

from dflash_doctor.model import Facts, Unreadable


def facts_or_reason(parse: Callable[[str, str], Facts], text: str, source: str) -> Facts | str:
    """The facts, or the words of the refusal; both are never nothing."""
    try:
        found: Facts | str = parse(text, source)
    except Unreadable as e:
        found = str(e)
    assert isinstance(found, Facts) or found
    return found
