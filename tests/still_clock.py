"""An event loop that never waits: when nothing is to do, its clock jumps to the next thing that is due."""

from __future__ import annotations

import asyncio
import selectors


class StillLoop(asyncio.SelectorEventLoop):
    """Sleeps take no time and timeouts come true."""

    def __init__(self):
        self.now = 0.0
        super().__init__(_Jumping(self))

    def time(self):
        return self.now


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop):
        super().__init__()
        self.loop = loop

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise AssertionError("everybody waits and nothing will ever happen")
            self.loop.now += timeout
        return ready


def run(what):
    """The result of a coroutine on such a loop."""
    loop = StillLoop()
    try:
        return loop.run_until_complete(what)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def until(moment):
    """Sleep until the loop's clock says so."""
    await asyncio.sleep(max(0.0, moment - asyncio.get_running_loop().time()))
