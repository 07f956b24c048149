"""`explain`: the page of a cause, or the list of all."""

from __future__ import annotations

import difflib
import os
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
    cause: Annotated[
        str | None,
        typer.Argument(
            metavar="CAUSE", help="A cause or a family of causes, as reports name them.", autocompletion=_names
        ),
    ] = None,
) -> None:
    """Print the page of a cause.

    What it means, why it costs you, how to confirm it, what usually did it and when it is wrong. Without a name, or
    with that of a family (spec), the list of causes.
    """
    color = sys.stdout is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ
    family = [n for n in rules.NAMES if cause is None or n.startswith(f"{cause.rstrip('.')}.")]
    if family:
        put(pages.contents({n: rules.module(n).__doc__ or "" for n in family}, color=color))
        return
    assert cause is not None
    if cause not in rules.NAMES:
        near = difflib.get_close_matches(cause, rules.NAMES, 3, 0.4) or [n for n in rules.NAMES if cause in n][:3]
        hint = f"; near it: {', '.join(near)}" if near else "; `dflash-doctor explain` lists them"
        raise Refused(f"there is no cause named {cause!r}{hint}")
    put(pages.page(rules.module(cause).__doc__ or "", cause=cause, color=color))
