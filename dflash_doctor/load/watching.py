"""What goes on beside the requests: who else is with the server, and whether the client keeps up."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from dflash_doctor.load import asking, counters

WATCH_S = 1.0  # between two looks at who else is there
TICK_S = 0.05
LATE_S = 0.02  # an event loop that is late by so much
OFTEN = 0.02  # and so often was the bottleneck: one hiccup moves no median
BUSY_CPU = 0.5  # share of one core from which on the client may be what is measured


@dataclass
class Looks:
    """Scrapes of one round."""

    seen: list[counters.Scrape] = field(default_factory=list)

    def foreign(self, ours: int) -> float | None:
        """Most requests beside `ours`; None when the server never said. Its gauges lag: ours are counted in full."""
        present = [p for p in map(counters.present, self.seen) if p is not None]
        return max(0.0, max(present) - ours) if present else None


@contextlib.asynccontextmanager
async def looking(look: asking.Look) -> AsyncIterator[Looks]:
    """Look at the server's counters once a second while the block runs."""
    looks = Looks()

    async def on_and_on() -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            looks.seen.append(await look())

    async with _beside(on_and_on()):
        yield looks


@dataclass
class Self:
    """How busy the client itself was."""

    began: float
    cpu_began: float = field(default_factory=time.process_time)
    late_s: float = 0.0  # largest delay of the event loop
    ticks: int = 0
    late_ticks: int = 0
    cpu_share: float = 0.0

    def doubt(self) -> str | None:
        """Why the times may be the client's own; None when they are not."""
        often = self.late_ticks / max(self.ticks, 1)
        if self.cpu_share <= BUSY_CPU and often <= OFTEN:
            return None
        return (
            f"the client itself was busy ({self.cpu_share:.0%} of a core, late {often:.0%} of the time, by at most "
            f"{1000 * self.late_s:.0f} ms): times may be its own"
        )


@contextlib.asynccontextmanager
async def keeping_up() -> AsyncIterator[Self]:
    """Measure the client itself while the block runs, and keep Python from pausing it to look for garbage."""
    clock = asyncio.get_running_loop().time
    me = Self(clock())

    async def tick() -> None:
        while True:
            due = clock() + TICK_S
            await asyncio.sleep(TICK_S)
            late = clock() - due
            me.late_s = max(me.late_s, late)
            me.ticks += 1
            me.late_ticks += late > LATE_S

    gc.collect()
    gc.disable()
    try:
        async with _beside(tick()):
            yield me
    finally:
        gc.enable()
    me.cpu_share = (time.process_time() - me.cpu_began) / max(clock() - me.began, 1e-3)


@contextlib.asynccontextmanager
async def _beside(what: object) -> AsyncIterator[None]:
    """Run a coroutine beside the block and end it with the block."""
    assert asyncio.iscoroutine(what)
    task = asyncio.create_task(what)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
