"""Speculation. SGLang counts what one step verifies, vLLM what it drafts: one less.

SGLang  --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
vLLM    --speculative-config '{"method": "mtp", "num_speculative_tokens": 3}'
"""

from __future__ import annotations

from typing import Any

from dflash_doctor.port import tables
from dflash_doctor.port.conventions.wants import Table, Want, off
from dflash_doctor.port.move import Move
from dflash_doctor.settings.same import last_part

# drafted tokens where a launch names a method and leaves the depth to SGLang, which chooses it at start
USUAL_DEPTH = {"mtp": 3, "eagle": 3, "eagle3": 3, "draft_model": 4, "dflash": 15, "dspark": 7, "ngram": 11}


def usual_depth(method: Any) -> int:
    """Drafted tokens per step where SGLang chooses them and the capture does not say which."""
    return USUAL_DEPTH.get(str(method), 3)


def _draft_model(m: Move, key: str, value: Any) -> Want:
    head = m.value("spec.method") == "mtp" and last_part(value) == last_part(m.value("model.path", ""))
    return Want(needless="the head is in the target's own checkpoint") if head else Want(((key, value),))


def _topk_to_vllm(m: Move, key: str, value: Any) -> Want:
    if value in (0, 1):
        return Want(needless="vLLM verifies chains")
    depth = m.whole("spec.depth", 1)
    return Want(missing=f"vLLM verifies chains only: a tree of width {value} becomes a chain of {depth}")


def _threshold_to_vllm(m: Move, key: str, value: Any) -> Want:
    exact = isinstance(value, (int, float)) and value >= 1
    return Want(needless="vLLM accepts exactly") if exact else Want(missing=tables.hint(key, "vllm"))


TABLE: Table = {
    ("vllm", "spec.draft_model"): _draft_model,
    ("sglang", "spec.draft_model"): _draft_model,
    ("vllm", "spec.topk"): _topk_to_vllm,
    ("vllm", "spec.accept_threshold"): _threshold_to_vllm,
    ("vllm", "spec.accept_threshold_acc"): _threshold_to_vllm,
    ("sglang", "spec.padded_batch"): off("SGLang always prepares drafts on the device"),
}
