"""What the battery has shown so far, one request at a time: speeds against the tuned side, and what was accepted."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import fmean

from dflash_doctor.formats.load import Decision, Request
from dflash_doctor.load.battery import BATTERY, Preset, Turn, workload
from dflash_doctor.load.deciding import Against, decide, due, get_ready


@dataclass
class Evidence:
    """Grows answer by answer."""

    was: Against | None
    preset: Preset
    decision: Decision | None = None
    accept: float | None = None  # tokens per step of the latest answer
    _logs: dict[str, list[float]] = field(default_factory=dict)  # of each prompt, one a pass
    _heard: int = 0

    def __post_init__(self) -> None:
        if self.was is not None:
            get_ready()

    @property
    def enough(self) -> bool:
        """Whether it is decided."""
        return self.decision is not None and self.decision.word != "undecided"

    def hear(self, r: Request) -> None:
        """Take in one answer, in the order of the battery; look when it is time for a look."""
        self._heard += 1
        if r.chunks > 1 and r.output_tokens:
            self.accept = (r.output_tokens - 1) / (r.chunks - 1)
        if self.was is None or self.enough:
            return
        if r.tpot_ms and r.prompt in self.was.speeds:
            self._logs.setdefault(r.prompt, []).append(math.log(1000 / r.tpot_ms / self.was.speeds[r.prompt]))
        planned = self.preset.prompts
        done, place = divmod(self._heard - 1, planned)
        if done and place + 1 < planned:
            return  # a further pass says something at its end
        pairs = [fmean(v) for v in self._logs.values() if len(v) == done + 1]
        if pairs and due(place + 1, planned) and len(pairs) > 1:
            self.decision = decide(pairs, planned, self.was, self.preset.passes, done + 1)

    def further(self, turn: Turn) -> Turn:
        """The repeated prompts, made whole passes: they go on until it is decided or the time is up."""
        if self.preset.passes == 1:
            return turn
        once = workload(BATTERY).prompts[: self.preset.prompts]
        return replace(turn, workload=replace(turn.workload, prompts=once * (self.preset.passes - 1)))
