"""sched.chunked_prefill: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dflash_doctor.model import Setting
from tests.rules.build import found, snapshot


def test_another_chunk_size_is_named():
    now = snapshot(settings={"sched.max_tokens": Setting("sched.max_tokens", 512, "asked", "--max-num-batched-tokens")})
    finding = found("sched.chunked_prefill", now, snapshot(settings={"sched.max_tokens": 8192}))
    assert finding.summary == "sched.max_tokens: 8192 -> 512: prompts are prefilled in other pieces"
    assert finding.next_steps == ("put --max-num-batched-tokens back to 8192",)


def test_a_little_more_or_less_is_no_finding():
    now, was = snapshot(settings={"sched.max_tokens": 6144}), snapshot(settings={"sched.max_tokens": 8192})
    assert found("sched.chunked_prefill", now, was) is None


def test_another_engine_counts_in_its_own_way():
    now, was = (
        snapshot("sglang", settings={"sched.max_tokens": 8192}),
        snapshot("vllm", settings={"sched.max_tokens": 2048}),
    )
    assert found("sched.chunked_prefill", now, was) is None
