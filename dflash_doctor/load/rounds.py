"""The load rounds: warm up, then the battery at each concurrency, inside a cap of seconds, watching who else is there.

All prompts of a run get the same number of tokens: the most that fits the time at the pace the warm-up showed. A
request that would not end in time is not begun.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import httpx

from dflash_doctor import __version__
from dflash_doctor.formats.load import Client, Decision, Drift, LoadFile, Request, Round, Server
from dflash_doctor.load import asking, counters, opening, pace
from dflash_doctor.load.battery import BATTERY, Preset, Turn, preset, workload
from dflash_doctor.load.client import APIS, Ask
from dflash_doctor.load.ctrl_c import WORD, Stop, until_stopped
from dflash_doctor.load.deciding import Against
from dflash_doctor.load.drift import drift
from dflash_doctor.load.evidence import Evidence
from dflash_doctor.load.heard import Heard, understood
from dflash_doctor.load.opening import opened
from dflash_doctor.load.sending import Sender
from dflash_doctor.load.warmup import Warm, warm_up
from dflash_doctor.load.watching import Looks, Self, keeping_up, looking

CACHED = 0.5  # of short prompts: what a chat template puts before our own first line is less
LONGER = 1.25  # than planned a round may take when others follow it


@dataclass(frozen=True)
class Progress:
    """Where the load stands, for whoever watches."""

    phase: str
    done: int
    total: int
    tok_s: float | None
    elapsed_s: float
    cap_s: float
    accept: float | None = None  # tokens per step, of the latest answer at one request at a time
    decision: Decision | None = None  # against the tuned side, where there is one


Report = Callable[[Progress], None]


def run(
    url: str,
    *,
    preset_name: str = "quick",
    api_key: str | None = None,
    busy_ok: bool = False,
    max_running: int = 0,
    api: str | None = None,
    was: Against | None = None,
    on_progress: Report | None = None,
) -> LoadFile:
    """Put the server at `url` under the preset's load. Raises NotNow when it is busy or fails, Refused for bad usage.

    Against the tuned side `was` the battery at one request at a time ends as soon as it is decided.

    Ctrl-C ends the requests, on the server too, and keeps what was measured; with nothing measured it is what it is.
    """
    chosen, allowed = preset(preset_name), None if busy_ok else max_running
    apis = opening.apis(api)
    return until_stopped(
        lambda stop: measure(
            url, chosen, api_key=api_key, allowed=allowed, apis=apis, was=was, on_progress=on_progress, stop=stop
        )
    )


async def measure(
    url: str,
    chosen: Preset,
    *,
    api_key: str | None = None,
    allowed: int | None = 0,
    apis: tuple[str, ...] = APIS,
    was: Against | None = None,
    on_progress: Report | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
    stop: Stop | None = None,
) -> LoadFile:
    """The same inside a running loop, whose clock is the one that measures; so many requests of others are `allowed`
    to be there (None: any number)."""
    async with opened(url, chosen.seconds, api_key, transport) as client:
        load = _Load(client, chosen, on_progress or (lambda _: None), stop or Stop(), was)
        return await load.run(allowed, apis)


class _Load:
    """One run; what it learns on the way lives here, the result is one frozen LoadFile."""

    def __init__(
        self, client: httpx.AsyncClient, chosen: Preset, report: Report, stop: Stop, was: Against | None
    ) -> None:
        self.evidence = Evidence(was, chosen)
        self.client, self.preset, self.report, self.stop = client, chosen, report, stop
        self.clock = asyncio.get_running_loop().time
        self.began = self.clock()
        self.deadline = self.began + chosen.seconds
        self.notes: list[str] = []
        self.partial = self.counted = False
        self.context: int | None = None  # tokens of prompt and answer together

    async def run(self, allowed: int | None, apis: tuple[str, ...]) -> LoadFile:
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        served = await asking.model(self.client)
        self.context = served.context
        ask = Ask("", "", 0, served.model, apis[0])
        seen = await asking.scrape(self.client)
        self.counted = bool(seen)  # a server that gives no counters is not asked again and again
        self._note(asking.busy(seen, allowed))
        async with keeping_up() as me:
            sender = Sender(self.client, ask, self.stop)
            warm = await warm_up(sender, self.preset, workload(BATTERY).prompts, self.deadline, self._tell, apis)
            self.notes += warm.notes
            rounds = await self._rounds(warm)
        return LoadFile(
            client=_client(me), started_at=started, api=warm.sender.ask.api, model=ask.model, preset=self.preset.name,
            warmup=warm.warmup, partial=self.partial, notes=self.notes, rounds=rounds,
            decision=self.evidence.decision, drift=_drift(rounds),
        )  # fmt: skip

    async def _rounds(self, warm: Warm) -> list[Round]:
        tokens = pace.tokens_that_fit(self.preset, warm.pace, self.deadline - self.clock())
        turns = self._fitting(tokens)
        planned = [warm.pace.turn_s(turn, tokens) for turn in turns]
        rounds: list[Round] = []
        for i, turn in enumerate(turns):
            if self.stop.asked:
                if not self.partial:  # the round before was whole
                    self._cut(f"{WORD} before {turn}")
                break
            left = self.deadline - self.clock()
            share = planned[i] / sum(planned[i:])
            end = self.clock() + left * min(1.0, share * LONGER)
            if turn.again and not self.evidence.enough:
                turn = self.evidence.further(turn)  # the time that is left may still decide
            expected = warm.pace.request_s(tokens, turn.concurrency)
            # the first round is begun in any case: that a server is too slow is worth a number too
            if left <= 0 or (rounds and expected > left):
                self._cut(f"no time was left for {turn}")
                break
            rounds.append(await self._round(warm.sender, turn, tokens, expected, end))
        return rounds

    def _fitting(self, tokens: int) -> list[Turn]:
        """The rounds without the prompts that are too long for this server."""
        turns: list[Turn] = []
        for turn in self.preset.turns():
            prompts = turn.workload.prompts
            fit = tuple(p for p in prompts if self.context is None or p.longest + tokens <= self.context)
            if fit != prompts:
                names = ", ".join(p.id for p in prompts if p not in fit)
                self._note(f"left out, for the server takes {self.context} tokens at most: {names}")
            if fit:
                turns.append(replace(turn, workload=replace(turn.workload, prompts=fit)))
        return turns

    async def _round(self, sender: Sender, turn: Turn, tokens: int, expected: float, end: float) -> Round:
        prompts, concurrency = turn.workload.prompts, turn.concurrency
        weighs = turn.workload.name == BATTERY and concurrency == 1
        before = await self._look()
        queue = list(reversed(prompts))
        answers: list[Heard] = []
        begin_wall, began = time.time(), self.clock()

        def another() -> bool:
            begun = len(prompts) - len(queue)
            if self.stop.asked or (weighs and begun >= turn.again and self.evidence.enough):
                return False
            return begun < concurrency or self.clock() + expected <= end

        async def worker() -> None:
            nonlocal expected
            while queue and another():
                heard = await sender.one(queue.pop(), tokens, self.deadline)
                answers.append(heard)
                well = [a for a in answers if a.wrong is None]
                if well:  # the longest so far, in place of what the warm-up let one expect
                    expected = max(a.seconds for a in well)
                    self.stop.something = True
                if weighs:
                    self.evidence.hear(understood(heard, began))
                rate = len(well) * tokens / max(self.clock() - began, 1e-3)
                self._tell(str(turn), len(answers), len(prompts), rate or None)

        async with looking(self._look) as looks:
            await asyncio.gather(*(worker() for _ in range(concurrency)))
            wall, end_wall = self.clock() - began, time.time()
        after = await asking.settled(self._look)
        done: list[Request] = []
        for answer in sorted(answers, key=lambda a: a.sent):
            done.append(understood(answer, began))
            await asyncio.sleep(0)  # reading them all in one go would look as if the client did not keep up
        wanted = turn.again or len(prompts)
        if (len(done) < wanted and not (weighs and self.evidence.enough)) or _cancelled(done[:wanted]):
            well = sum(r.status == "ok" for r in done)
            why = WORD if self.stop.asked else "the time was up"
            self._cut(f"{why} after {well} of {wanted} prompts, {turn}")
        own = {p.id: p.tokens or tokens for p in prompts}
        self._note(_short([r for r in done if r.output_tokens and r.output_tokens < own[r.prompt]], turn))
        return Round(
            workload=turn.workload.name, version=turn.workload.version, concurrency=concurrency, max_tokens=tokens,
            wall_ms=1000 * wall, requests=done, server=self._counted(before, after, looks, turn),
            again=bool(turn.again), t_begin=begin_wall, t_end=end_wall,
        )  # fmt: skip

    async def _look(self) -> counters.Scrape:
        return await asking.scrape(self.client) if self.counted else {}

    def _counted(self, before: counters.Scrape, after: counters.Scrape, looks: Looks, turn: Turn) -> Server | None:
        if not after:
            return None
        ours, cold = turn.concurrency, not any(p.shares for p in turn.workload.prompts)
        found = counters.server(before, after, looks.seen, looks.foreign(ours))
        if foreign := found.foreign_running_max:
            self._note(f"up to {foreign:.0f} requests of others ran beside {ours} of ours: numbers are of both")
        elif cold and (share := counters.cached(found)) > CACHED:
            self._note(
                f"{share:.0%} of the prompts came from the prefix cache: first tokens came sooner than they would"
            )
        return found

    def _cut(self, why: str) -> None:
        self.partial = True
        self._note(why)

    def _note(self, text: str | None) -> None:
        if text is not None:
            self.notes.append(text)

    def _tell(self, phase: str, done: int, total: int, tok_s: float | None) -> None:
        e, elapsed = self.evidence, self.clock() - self.began
        self.report(Progress(phase, done, total, tok_s, elapsed, self.preset.seconds, e.accept, e.decision))


def _cancelled(done: list[Request]) -> bool:
    return any(r.status == "cancelled" for r in done)


def _drift(rounds: list[Round]) -> Drift | None:
    first = [q for r in rounds if r.workload == BATTERY and r.concurrency == 1 and not r.again for q in r.requests]
    return drift(first, [q for r in rounds if r.again for q in r.requests])


def _short(ended: list[Request], turn: Turn) -> str | None:
    if not ended:
        return None
    return f"{len(ended)} answer{'s' * (len(ended) > 1)} ended before their time, {turn}: lengths are not equal"


def _client(me: Self) -> Client:
    return Client(
        version=__version__, cpu_share=round(me.cpu_share, 3), loop_lag_ms=round(1000 * me.late_s, 1), doubt=me.doubt()
    )
