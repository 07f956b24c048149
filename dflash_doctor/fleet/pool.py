"""A few hosts at a time, each with a deadline: one that hangs costs its slot for that long, and one line.

A thread for each, since what looks at a host waits for sockets. A thread cannot be ended from outside, so a late one
gets its session closed under it and is forgotten: what it may still say is not heard.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

J = TypeVar("J")
R = TypeVar("R")
TICK_S = 0.25  # how often deadlines and the live table are looked after


class Closable(Protocol):
    def close(self) -> None: ...


@dataclass(frozen=True)
class Late:
    """It was not done within its deadline."""

    phase: str
    seconds: float


@dataclass
class Visit:
    """One host in hand, as seen from both threads."""

    name: str
    began: float
    phase: str = ""
    session: Closable | None = None
    over: bool = False
    notes: list[str] = field(default_factory=list)

    def hold(self, session: Closable) -> None:
        """What is to be closed when it takes too long."""
        self.session = session
        if self.over:  # it came to be after the deadline
            self.close()

    def close(self) -> None:
        """End it from outside."""
        self.over = True
        if self.session is not None:
            threading.Thread(target=_closed, args=(self.session,), daemon=True).start()  # closing may hang too


def _closed(session: Closable) -> None:
    with suppress(Exception):  # it is given up: nobody listens to its complaints
        session.close()


class Pool(Generic[J, R]):
    """Runs `look(job, visit)` for every job; iterate over it for (job, result, seconds) in the order they end.

    A result is what `look` gave, the exception that it raised, or `Late`.
    """

    def __init__(
        self,
        jobs: Sequence[J],
        look: Callable[[J, Visit], R],
        name: Callable[[J], str],
        *,
        at_once: int,
        deadline_s: float,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.waiting = list(reversed(jobs))
        self.visits: dict[int, tuple[J, Visit]] = {}
        self._look, self._name, self._tick = look, name, tick
        self._at_once, self._deadline_s = at_once, deadline_s
        self._ended: queue.SimpleQueue[tuple[int, R | Exception]] = queue.SimpleQueue()
        self._next = 0

    def __iter__(self) -> Iterator[tuple[J, R | Exception | Late, float]]:
        try:
            while self.waiting or self.visits:
                while self.waiting and len(self.visits) < self._at_once:
                    self._begin(self.waiting.pop())
                with suppress(queue.Empty):
                    key, result = self._ended.get(timeout=TICK_S)
                    if key in self.visits:
                        job, visit = self.visits.pop(key)
                        yield job, result, time.monotonic() - visit.began
                for key, (job, visit) in list(self.visits.items()):
                    if (spent := time.monotonic() - visit.began) > self._deadline_s:
                        del self.visits[key]
                        visit.close()
                        yield job, Late(visit.phase, spent), spent
                self._tick()
        finally:
            for _, visit in self.visits.values():
                visit.close()

    def _begin(self, job: J) -> None:
        key, visit = self._next, Visit(self._name(job), time.monotonic())
        self._next += 1
        self.visits[key] = job, visit

        def work() -> None:
            result: R | Exception
            try:
                result = self._look(job, visit)
            except Exception as e:  # told to whoever iterates, who knows whether it is a bug
                result = e
            self._ended.put((key, result))

        threading.Thread(target=work, name=visit.name, daemon=True).start()
