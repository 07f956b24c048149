"""What a person sees on stderr while they wait: the phase, the seconds, the live rate. Nothing without a terminal."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.status import Status

from dflash_doctor.load import Progress
from dflash_doctor.report.hosttext import plain


class Watch:
    """One line that changes; silent when stderr is no terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._status: Status | None = Status("", console=console) if sys.stderr.isatty() else None

    def __enter__(self) -> Watch:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        if self._status is not None:
            self._status.stop()

    def phase(self, text: str) -> None:
        """Name what is being done now."""
        if self._status is not None:
            self._status.update(plain(text))

    def load(self, p: Progress) -> None:
        """Where the load stands."""
        rate = f", {p.tok_s:.3g} tok/s" if p.tok_s else ""
        self.phase(f"load: {p.phase} {p.done}/{p.total}{rate} ({p.elapsed_s:.0f} of {p.cap_s:.0f} s at most)")
