"""What goes where: the report on stdout as bytes, everything else on stderr, host text made harmless."""

from __future__ import annotations

import sys

from dflash_doctor.report.hosttext import plain


def say(text: str) -> None:
    """One line for people, on stderr."""
    print(plain(text), file=sys.stderr, flush=True)


def put(document: str) -> None:
    """A whole document on stdout, in UTF-8 whatever the locale."""
    sys.stdout.flush()
    sys.stdout.buffer.write(document.encode())
    sys.stdout.buffer.flush()
