"""Where the two engines mean different things by one setting: the value that does the same on the other side.

Units (a graph size is requests in SGLang, tokens in vLLM), counting (SGLang counts the bonus token among the drafts),
shares (vLLM's limits are per data parallel rank), and settings that one engine says with two flags and the other with
one. Between releases of one engine nothing is converted.
"""

from __future__ import annotations

from typing import Any

from dflash_doctor.port.conventions import drafts, kernels, parallel, room, steps
from dflash_doctor.port.conventions.drafts import usual_depth
from dflash_doctor.port.conventions.wants import Table, Want
from dflash_doctor.port.move import Move

__all__ = ["Want", "usual_depth", "want"]

_TABLE: Table = {**parallel.TABLE, **room.TABLE, **steps.TABLE, **kernels.TABLE, **drafts.TABLE}


def want(m: Move, key: str, value: Any) -> Want:
    """The other side's values for one setting of the tuned side."""
    convention = None if m.same else _TABLE.get((m.engine, key))
    return convention(m, key, value) if convention is not None else Want(((key, value),))
