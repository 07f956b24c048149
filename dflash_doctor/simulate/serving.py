"""The engine's batch: requests wait, are prefilled, decode together step by step, and end.

A pure machine over a clock that is handed in: `begin` plans the next step and says when it ends, `end` says what came
out of it. The same machine serves clients in real time and writes the log of past hours in no time.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

from dflash_doctor.simulate.pace import Draft, Pace
from dflash_doctor.simulate.scenario import Kind, Scenario

Sink = Callable[["Chunk"], None]


@dataclass(eq=False)
class Job:
    """One request on the server."""

    prompt: tuple[str, ...]  # tokens
    want: int  # output tokens until it ends
    finish: str  # why it will end: "length" or "stop"
    arrived: float
    mark: int  # what its text hashes to: decides the answer and the luck of its drafts
    sink: Sink | None = None
    draft: Draft | None = None
    computed: int = 0  # tokens whose KV is there
    cached: int = 0
    made: int = 0
    verifies: int = 0
    admitted: float | None = None
    first: float | None = None
    last: float | None = None

    @property
    def context(self) -> int:
        return len(self.prompt) + self.made

    @property
    def prefilled(self) -> bool:
        # the newest token's KV is computed by the step that follows it
        return self.computed >= self.context - (1 if self.made else 0)


@dataclass(frozen=True)
class Chunk:
    """What one step gave one request."""

    job: Job
    tokens: int
    time: float
    gap: float | None  # since the chunk before; None for the first
    done: bool


@dataclass(frozen=True)
class Step:
    """One step of the engine, for counters and log lines."""

    start: float
    end: float
    chunks: tuple[Chunk, ...]
    decoded: int  # requests that decoded
    drafts: tuple[int, ...]  # accepted drafts by decoding request
    new_seqs: int  # requests whose prefill began
    prefill_tokens: int
    cached_tokens: int
    queries: int  # prompt tokens looked up in the prefix cache
    preempted: int
    running: int
    waiting: int
    kv_used: int


@dataclass
class _Plan:
    start: float
    end: float = 0.0
    decoding: list[Job] = field(default_factory=list)
    prefills: list[tuple[Job, int]] = field(default_factory=list)
    admitted: list[Job] = field(default_factory=list)
    preempted: int = 0


class Serving:
    """The running batch of one engine."""

    def __init__(self, scenario: Scenario, boot: int = 0) -> None:
        self.scenario = scenario
        self.depth = scenario.acceptance.depth if scenario.acceptance else 0
        self.running: list[Job] = []
        self.waiting: deque[Job] = deque()
        self._pace = Pace(scenario.timing, scenario.seed, boot)
        self._boot = boot
        self._cache = PrefixCache(scenario.kv_tokens, scenario.page_size) if scenario.prefix_cache else None
        self._plan: _Plan | None = None

    def job(self, text: str, max_tokens: int | None, now: float, sink: Sink | None = None) -> Job:
        """A request with this text."""
        s = self.scenario
        mark = int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")
        prompt = tokens_of(text)
        kind = _kind(s, text)
        room = max(1, s.model.context - len(prompt))
        natural = kind.stop_after if kind and kind.stop_after else None
        if max_tokens is None:
            natural = natural or 512  # an answer without a limit has to end some time
        want = min(room, max_tokens or room, natural or room)
        draft = Draft(s.acceptance, kind, mark, s.seed + self._boot) if s.acceptance else None
        finish = "stop" if want == natural and want != max_tokens else "length"
        return Job(prompt, want, finish, now, mark, sink, draft)

    def submit(self, job: Job) -> None:
        self.waiting.append(job)

    def cancel(self, job: Job) -> bool:
        """Take a request away whose client has gone; False when it had ended."""
        if job in self.waiting:
            self.waiting.remove(job)
        elif job in self.running:
            self.running.remove(job)
        else:
            return False
        if self._plan:
            self._plan.decoding = [j for j in self._plan.decoding if j is not job]
            self._plan.prefills = [(j, n) for j, n in self._plan.prefills if j is not job]
        return True

    @property
    def kv_used(self) -> int:
        return sum(j.computed for j in self.running)

    def begin(self, now: float) -> float | None:
        """Plan the step that starts now; the time when it ends, or None when there is nothing to do."""
        plan = _Plan(now)
        decoding = [j for j in self.running if j.prefilled]
        self._make_room(plan, decoding)
        self._admit(plan)
        prefilling = [j for j in self.running if not j.prefilled]
        if not prefilling and not decoding:
            return None
        # SGLang runs a prefill by itself and the others pause; vLLM puts both into one step
        together = self.scenario.engine == "vllm"
        plan.decoding = decoding if together or not prefilling else []
        budget = max(1, self.scenario.max_tokens - len(plan.decoding) * (self.depth + 1))
        for job in prefilling:
            if budget <= 0:
                break
            take = min(job.context - job.computed, budget)
            plan.prefills.append((job, take))
            budget -= take
        taken = sum(n for _, n in plan.prefills)
        seconds = self._pace.prefill_s(taken) if plan.prefills else 0.0
        if plan.decoding:
            seconds += self._pace.step_s(len(plan.decoding), sum(j.context for j in plan.decoding))
        plan.end = now + seconds
        self._plan = plan
        return plan.end

    def end(self) -> Step:
        """The outcome of the planned step."""
        plan = self._plan
        assert plan is not None, "end() follows begin()"
        self._plan = None
        chunks: list[Chunk] = []
        drafts: list[int] = []
        for job in plan.decoding:
            accepted = job.draft.accepted(job.context) if job.draft else 0
            drafts.append(accepted)
            job.verifies += 1
            chunks.append(self._emit(job, 1 + accepted, plan.end))
            job.computed = job.context - 1
        for job, taken in plan.prefills:
            job.computed += taken
            if job.computed >= job.context:
                if self._cache:
                    self._cache.keep(job.prompt)
                chunks.append(self._emit(job, 1, plan.end))
        return Step(
            plan.start, plan.end, tuple(chunks), len(plan.decoding), tuple(drafts) if self.depth else (),
            len(plan.admitted), sum(n for _, n in plan.prefills), sum(j.cached for j in plan.admitted),
            sum(len(j.prompt) for j in plan.admitted) if self._cache else 0, plan.preempted,
            len(self.running), len(self.waiting), self.kv_used,
        )  # fmt: skip

    def _emit(self, job: Job, tokens: int, now: float) -> Chunk:
        tokens = min(tokens, job.want - job.made)
        gap = None if job.last is None else now - job.last
        job.made += tokens
        job.first = now if job.first is None else job.first
        job.last = now
        done = job.made >= job.want
        if done:
            self.running.remove(job)
        return Chunk(job, tokens, now, gap, done)

    def _make_room(self, plan: _Plan, decoding: list[Job]) -> None:
        # each decoding request may grow by a whole block of drafts; the youngest gives way and is computed again later
        while len(self.running) > 1 and self.kv_used + len(decoding) * (self.depth + 1) > self.scenario.kv_tokens:
            youngest = self.running.pop()
            youngest.computed = youngest.cached = 0
            self.waiting.appendleft(youngest)
            if youngest in decoding:
                decoding.remove(youngest)
            plan.preempted += 1

    def _admit(self, plan: _Plan) -> None:
        if plan.preempted:
            return
        reserved = sum(max(j.context, j.computed) for j in self.running)
        while self.waiting and len(self.running) < self.scenario.max_seqs:
            job = self.waiting[0]
            reserved += job.context + self.depth + 1
            if self.running and reserved > self.scenario.kv_tokens:
                return
            self.waiting.popleft()
            # the last token is always computed: its output is what is wanted
            job.cached = job.computed = self._cache.hit(job.prompt[:-1]) if self._cache else 0
            job.admitted = plan.start if job.admitted is None else job.admitted
            self.running.append(job)
            plan.admitted.append(job)


class PrefixCache:
    """Which prompt prefixes have their KV kept, in whole pages, the longest unused forgotten first."""

    def __init__(self, capacity: int, page: int) -> None:
        self._page, self._pages = page, max(1, capacity // page)
        self._kept: OrderedDict[int, None] = OrderedDict()

    def hit(self, prompt: tuple[str, ...]) -> int:
        """Tokens at the head of the prompt whose KV is kept."""
        pages = 0
        for key in self._chain(prompt):
            if key not in self._kept:
                break
            self._kept.move_to_end(key)
            pages += 1
        return pages * self._page

    def keep(self, prompt: tuple[str, ...]) -> None:
        for key in self._chain(prompt):
            self._kept[key] = None
            self._kept.move_to_end(key)
        while len(self._kept) > self._pages:
            self._kept.popitem(last=False)

    def _chain(self, prompt: tuple[str, ...]) -> list[int]:
        keys, before = [], 0
        for i in range(0, len(prompt) - self._page + 1, self._page):
            before = hash((before, prompt[i : i + self._page]))
            keys.append(before)
        return keys


def tokens_of(text: str) -> tuple[str, ...]:
    """Something like tokens: 1.3 of them per word, and equal beginnings have equal tokens."""
    tokens: list[str] = []
    for i, word in enumerate(text.split()):
        tokens.append(word)
        if i % 10 in (2, 5, 8):
            tokens.append("")
    return tuple(tokens) or ("",)


WORDS = re.findall(
    r"\w+",
    "the a of to and in is it that for on with as at by from this each step first then next when where value list "
    "line file name time node left right open close read write count total small large fast slow even odd key map "
    "set add move turn keep send take make find sort merge split check start end",
)


def answer(mark: int, begin: int, tokens: int) -> str:
    """The tokens from `begin` on of what the model says to the prompt of this mark: one word each."""
    size = len(WORDS)
    return "".join(
        (" " if i else "") + WORDS[((mark >> (i % 48)) ^ (i * 40503)) % size] for i in range(begin, begin + tokens)
    )


def _kind(scenario: Scenario, text: str) -> Kind | None:
    return next((k for k in scenario.kinds.values() if re.search(k.when, text)), None)
