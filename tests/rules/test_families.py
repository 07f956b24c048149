"""A setting of a family that no rule knows by name is named by the family's general cause, less surely."""

from __future__ import annotations

import pytest

from dflash_doctor.model import Setting
from tests.rules.build import found, snapshot

CHANGED = [
    ("attention.backend_changed", "attention.flash_attn_max_num_splits_for_cuda_graph", 32, 1),
    ("compile.disabled", "compile.fuse_allreduce_rms", True, False),
    ("nccl.custom_allreduce_disabled", "comm.flashinfer_allreduce", True, False),
    ("moe.backend_changed", "moe.deepep_mode", "low_latency", "normal"),
    ("parallelism.changed", "parallel.dp_attention", True, False),
    ("sched.chunked_prefill", "sched.enable_mixed_chunk", True, False),
    ("sched.batch_limits", "sched.max_num_active_seqs", 64, 16),
]


def sides(key, was, now, said="asked"):
    def one(value):
        return snapshot(settings={key: Setting(key, value, said, f"--{key}"), "parallel.tp": 2})

    return one(now), one(was)


@pytest.mark.parametrize(("cause", "key", "was", "now"), CHANGED, ids=[c[1] for c in CHANGED])
def test_what_somebody_changed_is_named_less_surely_than_what_a_rule_knows(cause, key, was, now):
    finding = found(cause, *sides(key, was, now))
    assert key in finding.summary
    assert finding.confidence < 0.7


@pytest.mark.parametrize(("cause", "key", "was", "now"), CHANGED[:-1], ids=[c[1] for c in CHANGED[:-1]])
def test_two_defaults_that_differ_are_the_releases_doing(cause, key, was, now):
    assert found(cause, *sides(key, was, now, "default")) is None
