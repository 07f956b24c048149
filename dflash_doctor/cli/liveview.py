"""What a person sees on stderr while many hosts are looked at. Nothing without a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from dflash_doctor.fleet import Visit
from dflash_doctor.formats.check import Checked, sorted_by_gravity
from dflash_doctor.report.fleet import WELL, hand

if TYPE_CHECKING:
    from rich.live import Live


class LiveView:
    """A few lines that change: how far it is, who is in hand, the gravest so far."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._live: Live | None = None
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), transient=True, auto_refresh=False)

    def __enter__(self) -> LiveView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def draw(self, visits: Sequence[Visit], done: Sequence[Checked]) -> None:
        """Show where it stands."""
        if self._live is None:
            return
        now = time.monotonic()
        rows = [(v.name, v.phase, now - v.began) for v in visits]
        ill = sorted_by_gravity(h for h in done if h.verdict not in WELL)
        self._live.update(hand(rows, len(done), self.total, ill, self._live.console.height), refresh=True)
