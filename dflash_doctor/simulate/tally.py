"""What the engine has served since it started: the numbers behind /metrics and the periodic log lines."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field, replace

from dflash_doctor.simulate.serving import Job, Step

# bucket bounds as vLLM 0.20.1 and SGLang 0.5.23 expose them
TTFT = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
)  # fmt: skip
ITL = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
E2E = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000)
STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
SG_TTFT = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400)
SG_ITL = (
    0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8,
    1, 2, 4, 6, 8,
)  # fmt: skip
SG_E2E = (0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400)
QUEUE = (0, 0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100)


class Histogram:
    """A Prometheus histogram without labels."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True)
class Sums:
    """The plain counters; two of them subtract to what happened in between."""

    steps: int = 0
    decode_steps: int = 0
    prompt: int = 0  # prompt tokens of requests that gave their first token
    cached: int = 0
    computed: int = 0
    generated: int = 0
    drafts: int = 0
    accepted: int = 0
    per_position: tuple[int, ...] = ()
    queries: int = 0
    hits: int = 0
    preemptions: int = 0
    requests: int = 0  # finished, and below what they add when they finish
    finished_prompt: int = 0
    finished_generated: int = 0
    finished_cached: int = 0
    verifies: int = 0

    def since(self, before: Sums) -> Sums:
        numbers = {k: v - getattr(before, k) for k, v in vars(self).items() if k != "per_position"}
        was = before.per_position or (0,) * len(self.per_position)
        return Sums(**numbers, per_position=tuple(a - b for a, b in zip(self.per_position, was, strict=True)))


@dataclass
class Tally:
    """Everything counted since the start."""

    depth: int
    sums: Sums = Sums()
    running: int = 0
    waiting: int = 0
    kv_used: int = 0
    finished: Counter[str] = field(default_factory=Counter)
    ttft: Histogram = field(default_factory=lambda: Histogram(TTFT))
    itl: Histogram = field(default_factory=lambda: Histogram(ITL))
    tpot: Histogram = field(default_factory=lambda: Histogram(ITL))
    e2e: Histogram = field(default_factory=lambda: Histogram(E2E))
    queue: Histogram = field(default_factory=lambda: Histogram(E2E))
    prefill: Histogram = field(default_factory=lambda: Histogram(E2E))
    decode: Histogram = field(default_factory=lambda: Histogram(E2E))
    inference: Histogram = field(default_factory=lambda: Histogram(E2E))
    prompts: Histogram = field(default_factory=lambda: Histogram(LENGTHS))
    outputs: Histogram = field(default_factory=lambda: Histogram(LENGTHS))
    step_tokens: Histogram = field(default_factory=lambda: Histogram(STEP_TOKENS))
    sg_ttft: Histogram = field(default_factory=lambda: Histogram(SG_TTFT))
    sg_itl: Histogram = field(default_factory=lambda: Histogram(SG_ITL))
    sg_tpot: Histogram = field(default_factory=lambda: Histogram(SG_ITL))
    sg_e2e: Histogram = field(default_factory=lambda: Histogram(SG_E2E))
    sg_queue: Histogram = field(default_factory=lambda: Histogram(QUEUE))

    def __post_init__(self) -> None:
        self.sums = replace(self.sums, per_position=(0,) * self.depth)

    def observe(self, step: Step) -> None:
        """Count one step."""
        firsts = [c for c in step.chunks if c.gap is None]
        generated = sum(c.tokens for c in step.chunks)
        done = [c.job for c in step.chunks if c.done]
        s = self.sums
        self.sums = Sums(
            steps=s.steps + 1,
            decode_steps=s.decode_steps + (1 if step.decoded else 0),
            prompt=s.prompt + sum(len(c.job.prompt) for c in firsts),
            cached=s.cached + step.cached_tokens,
            computed=s.computed + step.prefill_tokens,
            generated=s.generated + generated,
            drafts=s.drafts + len(step.drafts),
            accepted=s.accepted + sum(step.drafts),
            per_position=tuple(n + sum(1 for a in step.drafts if a > i) for i, n in enumerate(s.per_position)),
            queries=s.queries + step.queries,
            hits=s.hits + step.cached_tokens,
            preemptions=s.preemptions + step.preempted,
            requests=s.requests + len(done),
            finished_prompt=s.finished_prompt + sum(len(j.prompt) for j in done),
            finished_generated=s.finished_generated + sum(j.made for j in done),
            finished_cached=s.finished_cached + sum(j.cached for j in done),
            verifies=s.verifies + sum(j.verifies for j in done),
        )
        self.running, self.waiting, self.kv_used = step.running, step.waiting, step.kv_used
        self.step_tokens.observe(step.prefill_tokens + generated)
        for chunk in step.chunks:
            if chunk.gap is None:
                for h in (self.ttft, self.sg_ttft):
                    h.observe(chunk.time - chunk.job.arrived)
            else:
                # vLLM: one observation per chunk; SGLang: the gap is spread over the chunk's tokens
                self.itl.observe(chunk.gap)
                self.sg_itl.observe(chunk.gap / max(1, chunk.tokens), chunk.tokens)
        for job in done:
            self._finish(job)

    def aborted(self, running: int, waiting: int) -> None:
        """Count a request whose client went away."""
        self.finished["abort"] += 1
        self.running, self.waiting = running, waiting

    def _finish(self, job: Job) -> None:
        assert job.first is not None and job.last is not None and job.admitted is not None
        self.finished[job.finish] += 1
        self.prompts.observe(len(job.prompt))
        self.outputs.observe(job.made)
        tpot = (job.last - job.first) / (job.made - 1) if job.made > 1 else 0.0
        for value, histograms in (
            (job.last - job.arrived, (self.e2e, self.sg_e2e)),
            (job.admitted - job.arrived, (self.queue, self.sg_queue)),
            (job.first - job.admitted, (self.prefill,)),
            (job.last - job.first, (self.decode,)),
            (job.last - job.admitted, (self.inference,)),
            (tpot, (self.tpot, self.sg_tpot) if job.made > 1 else ()),
        ):
            for h in histograms:
                h.observe(value)
