"""What a person sees on stderr while they wait: the phase, the seconds, the live rate. Nothing without a terminal."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from dflash_doctor.cli.streams import say
from dflash_doctor.report.hosttext import plain

if TYPE_CHECKING:
    from rich.status import Status

    from dflash_doctor.collect import AnySession
    from dflash_doctor.formats.load import Decision
    from dflash_doctor.load import Progress

PATIENCE_S = 1.0  # what is over before says nothing


class Watch:
    """One line that changes; silent when stderr is no terminal, and for what is over within `patience_s`."""

    def __init__(self, first: str = "", patience_s: float = 0.0) -> None:
        self._timer: threading.Timer | None = None
        self._status: Status | None = None
        if sys.stderr is None or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.text import Text

        self._status = Console(stderr=True).status(Text(plain(first)))
        if patience_s > 0:
            self._timer = threading.Timer(patience_s, self._status.start)
            self._timer.daemon = True

    def __enter__(self) -> Watch:
        if self._timer is not None:
            self._timer.start()
        elif self._status is not None:
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self._status is not None:
            self._status.stop()

    def phase(self, text: str) -> None:
        """Name what is being done now."""
        if self._status is not None:
            from rich.text import Text

            self._status.update(Text(plain(text)))

    def opened(self, session: AnySession) -> None:
        """One host is waited for as long as its own time limits say; Ctrl-C ends it."""

    def note(self, text: str) -> None:
        """Something worth a line that stays."""
        say(f"note: {text}")

    def load(self, p: Progress) -> None:
        """Where the load stands."""
        rate = f", {p.tok_s:.3g} tok/s" if p.tok_s else ""
        steps = f", {p.accept:.2g} tokens a step" if p.accept and p.accept > 1 else ""
        word = f", {decided(p.decision)}" if p.decision else ""
        self.phase(
            f"load: {p.phase} {p.done}/{p.total}{rate}{steps}{word} ({p.elapsed_s:.0f} of {p.cap_s:.0f} s at most)"
        )


def decided(d: Decision) -> str:
    """Where the comparison with the tuned side stands; with the smallest loss that so many prompts show."""
    word = f"{d.factor:.2f} of the tuned speed"
    if d.word == "undecided":
        return f"{word}, not yet decided ({d.low:.2f} to {d.high:.2f}; losses from {d.detectable:.0%} on would show)"
    return f"{word}: {d.word}"
