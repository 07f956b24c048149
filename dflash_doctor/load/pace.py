"""How long requests take here, and how many tokens each may have so that all of them fit into the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from dflash_doctor.formats.load import Request
from dflash_doctor.load.battery import Preset, Turn

# n requests at once give n^0.6 times the tokens of one: 1.5 times for two. The published 17.7 -> 30.4 and
# 222.8 -> 413.0 tok/s are better; a server that gives less finds its time up and the round is partial
GAIN = 0.6
SPARE = 0.9  # of the time is planned: the medians of short requests are no promise
READ_S = 10_000  # tokens of a long prompt a second, which short requests do not show; a slower server is cut off
LATEST = 3  # requests of the warm-up that are believed: the first ones compile and capture


@dataclass(frozen=True)
class Pace:
    """Time to the first token and for each further one, one request at a time."""

    first_s: float
    token_s: float

    def request_s(self, tokens: int, concurrency: int = 1) -> float:
        """How long one of so many requests at once takes."""
        slower: float = concurrency ** (1 - GAIN)
        return (self.first_s + (tokens - 1) * self.token_s) * slower

    def turn_s(self, turn: Turn, tokens: int) -> float:
        """How long a round takes in which every answer has so many tokens."""
        prompts = turn.workload.prompts
        each = sum(self.request_s(p.tokens or tokens, turn.concurrency) + p.longest / READ_S for p in prompts)
        return -(-len(prompts) // turn.concurrency) * each / len(prompts)


def of(done: Sequence[Request]) -> Pace:
    """The pace that warm-up requests show."""
    latest = done[-LATEST:]
    first = median((r.ttft_ms or 0.0) / 1000 for r in latest)
    # an answer in one piece shows its end only
    per_token = median((r.tpot_ms or (r.e2e_ms or 0.0) / (r.output_tokens or 1)) / 1000 for r in latest)
    return Pace(first, per_token)


def tokens_that_fit(preset: Preset, pace: Pace, seconds: float) -> int:
    """The longest answers for which all rounds of the preset fit; the shortest when none do."""
    turns = preset.turns()
    for tokens in preset.tokens:
        if sum(pace.turn_s(turn, tokens) for turn in turns) <= SPARE * seconds:
            return tokens
    return preset.tokens[-1]
