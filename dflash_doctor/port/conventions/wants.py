"""What a convention answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dflash_doctor.port.move import Move

Parts = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Want:
    """What the other side should be told about one setting of the tuned side."""

    parts: Parts = ()  # settings of the other side and their values there
    why: str = ""
    risky: bool = False
    missing: str = ""  # why it cannot be said
    merged: str = ""  # what says it already
    needless: str = ""  # why nothing has to be said


# the move, the setting, its value on the tuned side
Convention = Callable[[Move, str, Any], Want]
Table = Mapping[tuple[str, str], Convention]  # (engine of the other side, setting)


def whole(value: Any) -> bool:
    """Whether it is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def off(why: str) -> Convention:
    """Nothing has to be said, whatever the value."""
    return lambda m, key, value: Want(needless=why)
