"""The engine that a client sees: its batch run in real time, streamed over HTTP.

Steps follow each other on an absolute schedule: a step that is sent late does not delay the next, so that the mean
step time is the scripted one however coarse the event loop's timer is.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable

from dflash_doctor.simulate import api
from dflash_doctor.simulate.http import Exchange, HttpProtocol
from dflash_doctor.simulate.logs import Lines, Write
from dflash_doctor.simulate.prometheus import render
from dflash_doctor.simulate.scenario import Scenario
from dflash_doctor.simulate.serving import Chunk, Job, Serving
from dflash_doctor.simulate.tally import Tally

Busy = Callable[[bool], None]


class Engine:
    """One simulated engine on one loopback port. All methods run on the event loop's thread."""

    def __init__(self, scenario: Scenario, write: Write, boot: int = 0, busy: Busy | None = None) -> None:
        self.scenario = scenario
        self.serving = Serving(scenario, boot)
        self.tally = Tally(self.serving.depth)
        self.port = 0
        self.late_s = 0.0  # the worst delay of a step behind its schedule
        self._write = write
        self._busy_now = False
        self._busy = busy or (lambda on: None)
        self._wake = asyncio.Event()
        self._jobs: set[Job] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None
        self._streams: set[HttpProtocol] = set()
        now = time.time()
        past = sum(t.seconds + t.idle_s for t in scenario.history)
        self.ready_at = now - past  # wall clock
        self.started_at = self.ready_at - scenario.log.start_s
        self.lines = Lines(scenario, self.tally, write, self.ready_at)

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self, port: int = 0) -> int:
        """Listen on loopback; returns the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, "127.0.0.1", port, backlog=256)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    def serve(self) -> None:
        """Write the past, then run."""
        self._offset = time.time() - asyncio.get_running_loop().time()  # loop clock to wall clock
        live(self.serving, self.tally, self.lines, self.scenario, self.ready_at)
        self._tasks = [asyncio.create_task(self._run())]
        if self.scenario.engine == "vllm":
            self._tasks.append(asyncio.create_task(self._tick()))
        if self.scenario.traffic:
            self._tasks += [asyncio.create_task(self._foreign(i)) for i in range(self.scenario.traffic.concurrency)]

    async def stop(self) -> None:
        """Close the port and every stream."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        for stream in list(self._streams):
            stream.close()
        if self._server is not None:
            await self._server.wait_closed()

    # -- the decode loop ----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time()
        while True:
            end = self.serving.begin(at)
            if end is None:
                self._mark(False)
                self._wake.clear()
                await self._wake.wait()
                # a request that finds the engine idle is begun at the moment it came, not when this task was woken
                at = max(at, min((j.arrived for j in self.serving.waiting), default=loop.time()))
                continue
            self._mark(True)
            late = loop.time() - end
            if late < 0:
                await _until(loop, end)
                late = loop.time() - end
            else:
                await asyncio.sleep(0)
            self.late_s = max(self.late_s, late)
            step = self.serving.end()
            self.tally.observe(step)
            for chunk in step.chunks:
                if chunk.job.sink is not None:
                    chunk.job.sink(chunk)
                if chunk.done:
                    self._jobs.discard(chunk.job)
            self.lines.step(step, end + self._offset)
            at = end

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self.scenario.log.interval_s)
            self.lines.tick(time.time())

    async def _foreign(self, number: int) -> None:
        traffic = self.scenario.traffic
        assert traffic is not None
        chance = random.Random(f"foreign {self.scenario.seed} {number}")
        loop = asyncio.get_running_loop()
        while True:
            done = asyncio.Event()

            def sink(chunk: Chunk, done: asyncio.Event = done) -> None:
                if chunk.done:
                    done.set()

            text = " ".join(str(chance.random()) for _ in range(max(1, int(traffic.input_tokens / 1.3))))
            self._submit(self.serving.job(text, traffic.output_tokens, loop.time(), sink))
            await done.wait()

    def _submit(self, job: Job) -> None:
        self._jobs.add(job)
        self.serving.submit(job)
        self._wake.set()

    def _mark(self, busy: bool) -> None:
        if busy != self._busy_now:
            self._busy_now = busy
            self._busy(busy)

    # -- HTTP ---------------------------------------------------------------------------------------------------------

    def _protocol(self) -> HttpProtocol:
        return HttpProtocol(self._answer, self._streams)

    def _answer(self, exchange: Exchange) -> None:
        method, path = exchange.method, exchange.path
        kind = api.COMPLETIONS.get(path)
        if kind is not None and method == "POST" and (kind != "generate" or self.scenario.engine == "sglang"):
            self._complete(exchange, kind)
            return
        content = self._page(method, path)
        if content is None:
            exchange.reply(404, b'{"detail":"Not Found"}')
        elif isinstance(content, str):
            exchange.reply(200, content.encode(), "text/plain; version=0.0.4; charset=utf-8")
        else:
            exchange.reply(200, content)
        status = "404 Not Found" if content is None else "200 OK"
        self.lines.request(time.time(), exchange.client_port, method, path, status)

    def _page(self, method: str, path: str) -> bytes | str | None:
        if method != "GET":
            return None
        s = self.scenario
        if path == "/metrics":
            if s.engine == "sglang" and not s.flags.get("enable-metrics"):
                return None
            return render(s, self.tally, self.lines.last, self.lines.tok_s, self.started_at)
        return api.page(s, path, self.tally, self.lines.tok_s, self.port)

    def _complete(self, exchange: Exchange, kind: str) -> None:
        s = self.scenario
        try:
            asked = api.Asked.read(kind, json.loads(exchange.body), s)
        except api.Wrong as e:
            exchange.reply(e.status, e.body())
            return
        except (ValueError, TypeError, AttributeError) as e:
            exchange.reply(400, api.Wrong(400, f"Invalid JSON body: {e}").body())
            return
        job = self.serving.job(asked.text, asked.max_tokens, exchange.received)
        if len(job.prompt) + 1 > s.model.context:
            wrong = api.Wrong(
                400,
                f"This model's maximum context length is {s.model.context} tokens. However, your request has "
                f"{len(job.prompt)} input tokens. Please reduce the length of the input messages.",
            )
            exchange.reply(400, wrong.body())
            return
        reply = api.Reply(asked, s, job)

        def sink(chunk: Chunk) -> None:
            if not asked.stream:
                if chunk.done:
                    exchange.reply(200, reply.whole())
                return
            exchange.stream(reply.events(chunk), last=chunk.done)

        def gone() -> None:
            if self.serving.cancel(job):
                self._jobs.discard(job)
                self.tally.aborted(len(self.serving.running), len(self.serving.waiting))

        job.sink = sink
        exchange.on_gone = gone
        if asked.stream:
            exchange.open_stream()
        self.lines.request(time.time(), exchange.client_port, "POST", exchange.path, "200 OK")
        self._submit(job)


async def _until(loop: asyncio.AbstractEventLoop, when: float) -> None:
    done = asyncio.Event()
    timer = loop.call_at(when, done.set)
    try:
        await done.wait()
    finally:
        timer.cancel()


def live(serving: Serving, tally: Tally, lines: Lines, scenario: Scenario, since: float) -> float:
    """Serve the scenario's history in no time, from the wall-clock second `since`; returns where it ends."""
    at, next_line = since, since + scenario.log.interval_s
    for number, past in enumerate(scenario.history):
        end = at + past.seconds
        chance = random.Random(f"history {scenario.seed} {number}")
        while at < end:
            while len(serving.running) + len(serving.waiting) < past.concurrency:
                words = max(1, int(past.input_tokens / 1.3))
                serving.submit(serving.job(" ".join(f"{chance.random():.9f}" for _ in range(words)),
                                           past.output_tokens, at))  # fmt: skip
            step_end = serving.begin(at)
            assert step_end is not None, "there are requests"
            while next_line <= step_end:
                lines.tick(next_line)
                next_line += scenario.log.interval_s
            step = serving.end()
            tally.observe(step)
            at = step_end
            lines.step(step, at)
        for job in [*serving.running, *serving.waiting]:
            serving.cancel(job)
        tally.running = tally.waiting = tally.kv_used = 0
        at = max(at, end) + past.idle_s
        while next_line <= at:
            lines.tick(next_line)
            next_line += scenario.log.interval_s
    return at
