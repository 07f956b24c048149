"""What porting speaks of: a row of the table, the launch of the other side, and both together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dflash_doctor.model import Gap

Status = Literal[
    "carried over",  # it is on the launch
    "already so",  # the other side has it, or does it by itself
    "differs",  # the other side runs something else; the launch changes it
    "default changed",  # nobody set it, and the other side's default is another
    "no equivalent",  # it cannot be said there
    "needs version",  # a later release can say it
    "risky",  # it is said, but does not mean quite the same, or not on this card
    "unknown",  # the map does not know it: carried through as it stands
]
By = Literal["set", "chosen", "default", "not set"]  # chosen: by the engine, at start

ORDER: tuple[Status, ...] = (
    "differs", "risky", "default changed", "carried over", "needs version", "no equivalent", "unknown", "already so",
)  # fmt: skip
ACTS: tuple[Status, ...] = ("differs", "risky", "default changed", "carried over", "needs version")
ENGINES = {"vllm": "vLLM", "sglang": "SGLang"}


@dataclass(frozen=True)
class Row:
    """One setting of the tuned side and what becomes of it."""

    key: str
    title: str
    concept: str  # of data/concepts.yaml
    tuned: Any  # None: the tuned side does not have it
    tuned_by: By
    needs: str  # what to write on the other side; empty: nothing
    now: Any  # what the other side has; None: not known, or there is no other side yet
    now_by: By
    status: Status
    why: str = ""
    weight: float = 0.0  # how likely it moves the speed, 0..1

    @property
    def acts(self) -> bool:
        """Whether somebody has to do something about it."""
        return self.status in ACTS


@dataclass(frozen=True)
class Launch:
    """How to start the other side."""

    engine: str
    version: str
    model: str | None = None
    flags: tuple[tuple[str, ...], ...] = ()  # a flag with its words
    configs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # speculative_config -> its keys
    env: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[tuple[str, ...], ...] = ()  # what no row knows: carried through, marked, not checked
    secrets: tuple[tuple[str, str], ...] = ()  # a flag and the variable that holds what was hidden
    gpus: int = 1
    port: int | None = None


@dataclass(frozen=True)
class Ported:
    """A tuned setup as the other side would run it."""

    name: str
    engine: str  # of the tuned side
    version: str | None
    launch: Launch
    rows: tuple[Row, ...]
    clashes: tuple[str, ...] = ()  # what contradicts itself on the tuned side
    notes: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    against: str | None = None

    def of(self, *statuses: Status) -> tuple[Row, ...]:
        """Rows of these statuses, in the order of the table."""
        return tuple(r for r in self.rows if r.status in statuses)
