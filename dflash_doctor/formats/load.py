"""`load.json`: what our load rounds measured. Schema name `dflash-doctor/load/1`.

Times are milliseconds on the client's monotonic clock; tokens are those of the server's `usage`; chunks are counted
apart, since with speculation one chunk carries several tokens. How each is defined stands in load/heard.py.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Request(_Model):
    """One request of a round."""

    prompt: str = Field(description="id of the battery prompt; the pairing key")
    status: Literal["ok", "failed", "cancelled"]
    error: str | None = Field(None, description="the named reason when it did not end ok")
    input_tokens: int | None = Field(None, description="as the server counts them (usage)")
    output_tokens: int | None = Field(None, description="the same")
    chunks: int = Field(0, description="events that carried generated tokens: with speculation several each")
    start_ms: float = Field(description="when it was sent, from the start of the round")
    ttft_ms: float | None = Field(None, description="send to first generated token of any kind, reasoning included")
    ttft_visible_ms: float | None = Field(None, description="send to first visible token, when that differs")
    tpot_ms: float | None = Field(None, description="(e2e - ttft) / (output tokens - 1)")
    e2e_ms: float | None = Field(None, description="send to the last token, or to the event that ends the answer")
    chunk_gap_ms: float | None = Field(None, description="median gap between chunks: the step time at one request")
    bunched: float | None = Field(
        None, description="share of those gaps that are under a tenth of their mean: chunks that came together"
    )
    finish: str | None = Field(None, description="finish_reason of the server")
    output_sha256: str | None = Field(None, description="hash of the output text: did two runs say the same")


class Server(_Model):
    """What the server's own counters say of one round (growth of /metrics over it)."""

    drafts: float | None = Field(None, description="verify steps")
    accepted: float | None = Field(None, description="drafted tokens that were accepted, bonus tokens not counted")
    accept_length: float | None = Field(
        None, description="1 + accepted / drafts; SGLang before 0.5.23: mean of the intervals it showed"
    )
    per_position: list[float] = Field(default_factory=list, description="share of drafts accepted up to position i")
    output_tokens: float | None = None
    prompt_tokens: float | None = None
    prefix_hits: float | None = None
    prefix_queries: float | None = None
    preemptions: float | None = None
    ttft_ms: float | None = Field(None, description="mean by the server's own histogram")
    e2e_ms: float | None = Field(None, description="the same")
    foreign_running_max: float | None = Field(None, description="most requests with the server beside ours")


class Round(_Model):
    """One workload at one concurrency."""

    workload: str
    version: int
    concurrency: int
    max_tokens: int
    wall_ms: float = Field(description="first request sent to last one ended")
    requests: list[Request]
    server: Server | None = None
    again: bool = Field(False, description="prompts of an earlier round once more, at the end")
    t_begin: float | None = Field(None, description="seconds since the epoch, client clock")
    t_end: float | None = None


class Client(_Model):
    """Who measured, and whether it was the bottleneck."""

    name: str = "dflash-doctor"
    version: str
    cpu_share: float | None = Field(None, description="CPU seconds of the client per wall second")
    loop_lag_ms: float | None = Field(None, description="largest delay of the client's own event loop")
    doubt: str | None = Field(None, description="why the times may be the client's own")


class Warmup(_Model):
    requests: int
    settled: bool = Field(description="whether two successive step-time medians agreed within 2 %")


class Decision(_Model):
    """How far the battery at one request at a time had decided against the tuned side when the load ended."""

    word: Literal["regressed", "ok", "undecided"]
    factor: float = Field(description="decode speed now over was")
    low: float = Field(description="of the interval, corrected for looking several times")
    high: float
    prompts: int
    detectable: float = Field(description="smallest loss of speed that would have been called regressed 9 times in 10")


class Drift(_Model):
    """Whether the server was the same at the end: the first prompts again, their step times against the first ones."""

    prompts: int
    change: float = Field(description="of the step time, as a share: 0.05 is five percent longer at the end")
    error: float = Field(description="standard error of that")
    found: bool = Field(description="more than 2 % and more than three standard errors")


class LoadFile(_Model):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    schema_: Literal["dflash-doctor/load/1"] = Field(default="dflash-doctor/load/1", alias="schema")
    client: Client
    started_at: str
    api: str
    model: str | None = None
    preset: str
    temperature: float = 0.0
    warmup: Warmup | None = None
    partial: bool = Field(False, description="cut short by a cap, by Ctrl-C or by foreign requests")
    notes: list[str] = Field(default_factory=list)
    rounds: list[Round]
    decision: Decision | None = None
    drift: Drift | None = None
