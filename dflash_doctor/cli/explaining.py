"""`explain`: the page of a cause, or the list of all."""

from __future__ import annotations

import difflib
import sys
from typing import Annotated

import typer

from dflash_doctor import rules
from dflash_doctor.cli.streams import put
from dflash_doctor.model import Refused
from dflash_doctor.report import pages


def _names(incomplete: str) -> list[str]:
    return [n for n in rules.NAMES if n.startswith(incomplete)]


def explain(
    cause: Annotated[str | None, typer.Argument(help="A cause, as reports name it.", autocompletion=_names)] = None,
) -> None:
    """Print what a cause means, how to confirm it and when it is wrong; without a name, the list of causes."""
    color = sys.stdout.isatty()
    if cause is None:
        put(pages.contents({n: rules.module(n).__doc__ or "" for n in rules.NAMES}, color=color))
        return
    if cause not in rules.NAMES:
        near = difflib.get_close_matches(cause, rules.NAMES, 3, 0.4) or [n for n in rules.NAMES if cause in n][:3]
        hint = f"; near it: {', '.join(near)}" if near else "; `dflash-doctor explain` lists them"
        raise Refused(f"there is no cause named {cause!r}{hint}")
    put(pages.page(rules.module(cause).__doc__ or "", cause=cause, color=color))
