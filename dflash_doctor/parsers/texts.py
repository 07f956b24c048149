"""What every parser asks first of a text: is it one?"""

from __future__ import annotations

import re

from dflash_doctor.model import Unreadable

LOOKED_AT = 65_536  # characters: enough to tell text from anything else
# control characters no text has, and the mark of bytes that were not UTF-8
_ODD = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]")
_ODD_BUT_NUL = re.compile("[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]")


def refuse_binary(text: str, what: str, nul: bool = False) -> None:
    """Raises Unreadable for nothing, and for what is no text; `nul`: words may be ended by NUL."""
    head = text[:LOOKED_AT]
    if not head.strip("\0\ufeff \t\r\n").strip():  # every kind of white space counts as nothing
        raise Unreadable("the file is empty")
    odd = len((_ODD_BUT_NUL if nul else _ODD).findall(head))
    if odd > len(head) // 10 or (nul and head.count("\0") > len(head) // 2):
        raise Unreadable(f"not text: this is no {what.removeprefix('a ').removeprefix('an ')} but binary data")
