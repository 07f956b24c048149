"""Ctrl-C during a load: the requests end, on the server too, and what was measured until then is kept.

Before anything was measured, and when it comes a second time, it does what it does elsewhere.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from dflash_doctor.load import hotloop

WORD = "stopped by Ctrl-C"

T = TypeVar("T")


class Stop:
    """Whether the load is to end before its time."""

    def __init__(self) -> None:
        self.asked = False
        self.something = False  # has been measured: there is something to keep
        self._requests: set[asyncio.Future[Any]] = set()

    def ask(self) -> None:
        """End what runs; nothing new is begun."""
        self.asked = True
        for request in self._requests:
            request.cancel()

    @contextmanager
    def ends(self, request: asyncio.Future[Any]) -> Iterator[None]:
        """While the block runs, stopping ends this request."""
        self._requests.add(request)
        try:
            yield
        finally:
            self._requests.discard(request)


def until_stopped(what: Callable[[Stop], Coroutine[Any, Any, T]]) -> T:
    """Run it to its end in a loop of its own, or to Ctrl-C."""
    try:
        return hotloop.run(_listening(what))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _listening(what: Callable[[Stop], Coroutine[Any, Any, T]]) -> T:
    stop, task = Stop(), asyncio.current_task()
    assert task is not None

    def heard() -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)  # the second one is not for us
        if stop.something:
            stop.ask()
        else:
            task.cancel()

    with _on_ctrl_c(heard):
        return await what(stop)


@contextmanager
def _on_ctrl_c(heard: Callable[[], None]) -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    # signals belong to the main thread; a job in the background of a shell ignores this one
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, heard)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
