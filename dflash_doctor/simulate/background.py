"""An event loop on a thread of its own, which any number of simulated hosts may share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """`with BackgroundLoop() as loop: loop.run(coroutine)`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
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
