"""What goes where: the report on stdout, everything else on stderr, host text made harmless."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from dflash_doctor.model import Refused
from dflash_doctor.report.hosttext import plain

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str) -> None:
    """One line for people, on stderr; on no other stream, should that one be closed."""
    if sys.stderr is not None:
        print(plain(text), file=sys.stderr, flush=True)


def put(document: str) -> None:
    """A whole document on stdout, in UTF-8 whatever the locale."""
    if sys.stdout is None:
        raise Refused("stdout is closed: there is nowhere to write to")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(document.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # `| head` has seen enough
        raise
    except OSError as e:
        _give_up(e)


def show(draw: Callable[[Console], None]) -> None:
    """Something drawn for the terminal, the file or the pipe that stdout is."""
    from rich.console import Console

    if sys.stdout is None:
        raise Refused("stdout is closed: there is nowhere to write to")
    try:
        draw(Console(file=sys.stdout))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as e:
        _give_up(e)


def nowhere() -> None:
    """Let what is still buffered go nowhere, so that Python does not complain of it at its end."""
    import os

    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _give_up(e: OSError) -> None:
    nowhere()
    raise Refused(f"the report cannot be written: {e.strerror or e}") from e
