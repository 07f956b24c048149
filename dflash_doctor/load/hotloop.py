"""An event loop that reads its streams inside `select`: a piece costs one read and one stamp, no callback and no task.

asyncio takes several microseconds for each callback, as much as all else that a piece needs. Here sockets that are
`watched` are read as soon as the kernel says that they can be; asyncio only hears of it when somebody waits for what
came. Its own sockets are one more descriptor among these. Where there is no epoll, asyncio reads as ever.
"""

from __future__ import annotations

import asyncio
import os
import select
import selectors
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

ROOM = 1 << 16  # bytes of one read

T = TypeVar("T")
Key = tuple[selectors.SelectorKey, int]
# the time of a read and what it gave, nothing at the end -> whether somebody has to be woken
Taken = Callable[[float, bytes], bool]

if sys.platform == "linux":

    class _Reading(selectors.EpollSelector):
        """Reads what is watched, and returns as a selector does for all else."""

        def __init__(self) -> None:
            super().__init__()
            self.watched: dict[int, Taken] = {}
            self.streams = select.epoll()
            self.streams.register(self.fileno(), select.EPOLLIN)
            self._room = memoryview(bytearray(ROOM))

        def select(self, timeout: float | None = None) -> list[Key]:
            until = None if timeout is None else time.monotonic() + timeout
            while True:
                other = woken = False
                for fd, _ in self.streams.poll(timeout):
                    if (taken := self.watched.get(fd)) is not None:
                        woken |= self._read(fd, taken)
                    else:
                        other = True
                if other:
                    return super().select(0)
                if woken or (until is not None and (timeout := until - time.monotonic()) <= 0):
                    return []

        def _read(self, fd: int, taken: Taken) -> bool:
            try:
                n = os.readv(fd, [self._room])
            except OSError:
                n = 0  # asyncio reads again and finds out why
            return taken(time.monotonic(), bytes(self._room[:n]))

        def close(self) -> None:
            self.streams.close()
            super().close()

    class HotLoop(asyncio.SelectorEventLoop):
        """The loop of a load."""

        def __init__(self) -> None:
            self._reading = _Reading()
            super().__init__(self._reading)

        def watch(self, fd: int, taken: Taken) -> None:
            """Hand every read of this socket to `taken`."""
            self._reading.watched[fd] = taken
            self._reading.streams.register(fd, select.EPOLLIN)

        def unwatch(self, fd: int) -> None:
            """Leave the socket to asyncio."""
            if self._reading.watched.pop(fd, None) is not None:
                self._reading.streams.unregister(fd)


def new_loop() -> asyncio.AbstractEventLoop:
    """Such a loop, or asyncio's own."""
    return HotLoop() if sys.platform == "linux" else asyncio.new_event_loop()


def run(what: Coroutine[Any, Any, T]) -> T:
    """asyncio.run in such a loop."""
    loop = new_loop()
    try:
        return loop.run_until_complete(what)
    finally:
        loop.run_until_complete(_ended(asyncio.all_tasks(loop)))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _ended(left: set[asyncio.Task[Any]]) -> None:
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
