"""An event loop on a thread of its own, which any number of simulated hosts may share.

epoll counts its waits in whole milliseconds and rounds them up, so that asyncio's timers, and with them the steps of a
simulated engine, would lie on that grid. Here `select` waits on epoll's own descriptor instead, in microseconds.
"""

from __future__ import annotations

import asyncio
import select
import selectors
import sys
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

if sys.platform == "linux":

    class _Fine(selectors.EpollSelector):
        """Any number of descriptors, and waits that end when they are over."""

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if timeout is not None and timeout > 0:
                select.select([self.fileno()], [], [], timeout)
                timeout = 0
            return super().select(timeout)


def _new_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(_Fine()) if sys.platform == "linux" else asyncio.new_event_loop()


class BackgroundLoop:
    """`with BackgroundLoop() as loop: loop.run(coroutine)`."""

    def __init__(self) -> None:
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="simulated hosts", daemon=True)

    def __enter__(self) -> BackgroundLoop:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 30.0) -> T:
        """Run it on the loop and wait for what it gives."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def call(self, work: Callable[[], T], timeout_s: float = 30.0) -> T:
        """Call a plain function on the loop's thread."""

        async def calling() -> T:
            return work()

        return self.run(calling(), timeout_s)
