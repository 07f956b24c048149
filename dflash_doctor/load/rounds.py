"""The load rounds: warm up, then the battery at each concurrency, inside a cap of seconds, watching who else is there.

All prompts of a run get the same number of tokens: the most that fits the time at the speed the warm-up showed. Each
request begins with a line of its own, so that no prefix cache answers for the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from statistics import median

import httpx

from dflash_doctor import __version__
from dflash_doctor.formats.load import Client, LoadFile, Request, Round, Warmup
from dflash_doctor.load import counters
from dflash_doctor.load.battery import Preset, Prompt, battery, preset
from dflash_doctor.load.client import CHAT, COMPLETIONS, Ask, send
from dflash_doctor.model import Refused

WARM_SHARE, FIRST_SHARE = 0.25, 0.5  # of the seconds: for the warm-up, for the first round
SETTLED = 0.02  # two successive step-time medians agree within this (MEASURING.md 4.3)
WATCH_S = 1.0  # between two looks at who else is there
LAG_S, TICK_S = 0.02, 0.05  # an event loop that is later than this by so much was the bottleneck
BUSY_CPU = 0.5  # share of one core from which on the client may be what is measured
CONNECT_S = 5.0


@dataclass(frozen=True)
class Progress:
    """Where the load stands, for whoever watches."""

    phase: str
    done: int
    total: int
    tok_s: float | None
    elapsed_s: float
    cap_s: float


Report = Callable[[Progress], None]


def run(
    url: str,
    *,
    preset_name: str = "quick",
    api_key: str | None = None,
    busy_ok: bool = False,
    on_progress: Report | None = None,
) -> LoadFile:
    """Put the server at `url` under the preset's load. Raises Refused when it cannot be, or is busy with others."""
    return asyncio.run(_Load(url, preset(preset_name), api_key, busy_ok, on_progress or (lambda _: None)).run())


class _Load:
    """One run; what it learns on the way lives here, the result is one frozen LoadFile."""

    def __init__(self, url: str, chosen: Preset, api_key: str | None, busy_ok: bool, report: Report) -> None:
        self.url, self.preset, self.busy_ok, self.report = url, chosen, busy_ok, report
        self.headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.ask = Ask("", "", 0, "")
        self.notes: list[str] = []
        self.partial = False
        self.ours = 0
        self.foreign: float | None = None

    async def run(self) -> LoadFile:
        began, cpu = time.monotonic(), time.process_time()
        self.deadline = began + self.preset.seconds
        self.began = began
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        limits = httpx.Limits(max_connections=64)
        timeout = httpx.Timeout(self.preset.seconds + 10, connect=CONNECT_S)
        async with httpx.AsyncClient(
            base_url=self.url, headers=self.headers, timeout=timeout, limits=limits, trust_env=False
        ) as self.client:
            model = await self._model()
            await self._refuse_when_busy()
            self.ask = replace(self.ask, model=model)
            async with _ticking() as lag:
                warmup, speed = await self._warm_up()
                rounds = await self._rounds(speed)
        wall = time.monotonic() - began
        share = (time.process_time() - cpu) / wall
        if share > BUSY_CPU or lag[0] > LAG_S:
            self.notes.append(
                f"the client itself was busy ({share:.0%} of a core, {1000 * lag[0]:.0f} ms late): times may be its own"
            )
        return LoadFile(
            client=Client(version=__version__, cpu_share=round(share, 3), loop_lag_ms=round(1000 * lag[0], 1)),
            started_at=started, api=self.ask.api, model=model, preset=self.preset.name, warmup=warmup,
            partial=self.partial, notes=self.notes, rounds=rounds,
        )  # fmt: skip

    # -- before -------------------------------------------------------------------------------------------------------

    async def _model(self) -> str:
        try:
            answer = await self.client.get("/v1/models")
            answer.raise_for_status()
            rows = answer.json()["data"]
            return str(rows[0]["id"])
        except httpx.HTTPStatusError as e:
            code = e.response.status_code
            hint = "; give the key with --api-key-env or --api-key-file" if code in (401, 403) else ""
            raise Refused(f"{self.url}/v1/models answers {code}{hint}") from e
        except httpx.HTTPError as e:
            raise Refused(f"nothing answers at {self.url}: {e or type(e).__name__}") from e
        except (ValueError, KeyError, IndexError, TypeError) as e:
            raise Refused(f"{self.url}/v1/models names no model: is this a vLLM or SGLang server?") from e

    async def _scrape(self) -> counters.Scrape:
        with contextlib.suppress(httpx.HTTPError):
            answer = await self.client.get("/metrics", timeout=CONNECT_S)
            if answer.status_code == 200:
                return counters.read(answer.text)
        return {}

    async def _refuse_when_busy(self) -> None:
        scrape = await self._scrape()
        running = counters.now(scrape, counters.RUNNING)
        if running is None:
            self.notes.append("the server exports no metrics: whether others use it meanwhile is not known")
        elif running > 0 and not self.busy_ok:
            raise Refused(
                f"{running:.0f} other requests are running; a load now would slow them and be slowed by them. "
                "Come back when they are done, or say --busy-ok (or --no-load)"
            )

    async def _warm_up(self) -> tuple[Warmup, float]:
        """Short requests one by one until the step time settles; the speed they show, in tok/s."""
        until = self.began + WARM_SHARE * self.preset.seconds
        _, prompts = battery()
        steps: list[float] = []
        speeds: list[float] = []
        count = 0
        for count in range(1, self.preset.warmups + 1):
            prompt = prompts[(count - 1) % len(prompts)]
            done = await self._one(prompt, self.preset.warmup_tokens, self.began)
            if done.status != "ok":
                if count == 1:
                    done = await self._other_api(prompt, done)
                if done.status != "ok":
                    raise Refused(f"the first requests fail, so nothing can be measured: {done.error}")
            if done.tpot_ms:
                speeds.append(1000 / done.tpot_ms)
            if done.chunk_gap_ms:
                steps.append(done.chunk_gap_ms)
            self._tell("warm-up", count, self.preset.warmups, speeds[-1] if speeds else None)
            if time.monotonic() > until:
                break
        settled = len(steps) > 1 and abs(steps[-1] / steps[-2] - 1) <= SETTLED
        return Warmup(requests=count, settled=settled), median(speeds[-3:]) if speeds else 10.0

    async def _other_api(self, prompt: Prompt, failed: Request) -> Request:
        """A server without ignore_eos or without a chat template gets the request in another form."""
        plain = replace(self.ask, ignore_eos=False)
        for other in (plain, replace(self.ask, api=COMPLETIONS), replace(plain, api=COMPLETIONS)):
            before, self.ask = self.ask, other
            done = await self._one(prompt, self.preset.warmup_tokens, self.began)
            if done.status == "ok":
                self.notes.append(
                    f"requests go to {other.api}" + ("" if other.ignore_eos else " and end when they end")
                )
                return done
            self.ask = before
        self.ask = replace(self.ask, api=CHAT)
        return failed

    # -- the rounds ---------------------------------------------------------------------------------------------------

    async def _rounds(self, speed: float) -> list[Round]:
        prompts = battery()[1][: self.preset.prompts]
        room = FIRST_SHARE * self.preset.seconds * speed / len(prompts)
        tokens = next((t for t in self.preset.tokens if t <= room), self.preset.tokens[-1])
        first_end = time.monotonic() + FIRST_SHARE * self.preset.seconds * 1.2
        rounds = []
        for i, concurrency in enumerate(self.preset.concurrency):
            last = i == len(self.preset.concurrency) - 1
            end = self.deadline if last or i else min(first_end, self.deadline)
            if time.monotonic() >= self.deadline:
                self.partial = True
                self.notes.append(f"no time was left for {concurrency} at once")
                break
            rounds.append(await self._round(prompts, concurrency, tokens, end))
        return rounds

    async def _round(self, prompts: Sequence[Prompt], concurrency: int, tokens: int, end: float) -> Round:
        before = await self._scrape()
        self.foreign = None
        begin_wall, began = time.time(), time.monotonic()
        queue = list(reversed(prompts))
        done: list[Request] = []

        async def worker() -> None:
            while queue and time.monotonic() < end:
                done.append(await self._one(queue.pop(), tokens, began, end))
                if done[-1].status == "ok":
                    rate = 1000 / (done[-1].tpot_ms or 1e9)
                    self._tell(f"{concurrency} at once", len(done), len(prompts), rate)

        watch = asyncio.create_task(self._watch())
        try:
            await asyncio.gather(*(worker() for _ in range(concurrency)))
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
        wall = time.monotonic() - began
        after = await self._scrape()
        if len([r for r in done if r.status == "ok"]) < len(prompts):
            self.partial = True
        return Round(
            workload="battery", version=battery()[0], concurrency=concurrency, max_tokens=tokens, wall_ms=1000 * wall,
            requests=sorted(done, key=lambda r: r.start_ms),
            server=counters.server(before, after, self.foreign) if after else None,
            t_begin=begin_wall, t_end=time.time(),
        )  # fmt: skip

    async def _one(self, prompt: Prompt, tokens: int, began: float, end: float | None = None) -> Request:
        text = f"(note {secrets.token_hex(4)})\n{prompt.text}"
        ask = replace(self.ask, prompt=prompt.id, text=text, max_tokens=tokens)
        self.ours += 1
        try:
            seconds = None if end is None else max(0.01, end - time.monotonic())
            return await asyncio.wait_for(send(self.client, ask, began), seconds)
        except asyncio.TimeoutError:
            # leaving the stream closes the connection, which ends the request on the server
            start = 1000 * (time.monotonic() - began)
            return Request(prompt=prompt.id, status="cancelled", error="the time was up", start_ms=start)
        finally:
            self.ours -= 1

    async def _watch(self) -> None:
        """Most requests that run beside ours, looked at once a second."""
        while True:
            await asyncio.sleep(WATCH_S)
            running = counters.now(await self._scrape(), counters.RUNNING)
            if running is not None:
                self.foreign = max(self.foreign or 0.0, running - self.ours)

    def _tell(self, phase: str, done: int, total: int, tok_s: float | None) -> None:
        self.report(Progress(phase, done, total, tok_s, time.monotonic() - self.began, self.preset.seconds))


@contextlib.asynccontextmanager
async def _ticking() -> AsyncIterator[list[float]]:
    """The largest delay of the event loop while the block runs, in a list of one."""
    worst = [0.0]

    async def tick() -> None:
        while True:
            due = time.monotonic() + TICK_S
            await asyncio.sleep(TICK_S)
            worst[0] = max(worst[0], time.monotonic() - due)

    task = asyncio.create_task(tick())
    try:
        yield worst
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
