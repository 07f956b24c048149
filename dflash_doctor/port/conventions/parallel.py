"""Ranks. SGLang's --tp-size counts all ranks of one model, vLLM's those of one data parallel rank.

SGLang  --tp-size 8 --dp-size 8 --enable-dp-attention      8 GPUs, one model, each GPU its own attention
vLLM    --tensor-parallel-size 1 --data-parallel-size 8    the same, for a model with experts
"""

from __future__ import annotations

from typing import Any

from dflash_doctor.port.conventions.wants import Table, Want, whole
from dflash_doctor.port.move import Move

MEET = 29501  # where the nodes of vLLM meet unless told otherwise


def _tp_to_vllm(m: Move, key: str, value: Any) -> Want:
    ranks = m.attention_ranks
    if ranks > 1 and whole(value) and value % ranks == 0:
        why = f"SGLang's {value} ranks share one model in {ranks} attention groups: {value // ranks} ranks each"
        return Want(((key, value // ranks),), why)
    return Want(((key, value),))


def _dp_to_vllm(m: Move, key: str, value: Any) -> Want:
    return Want(((key, max(m.attention_ranks, value if whole(value) else 1)),))


def _dp_attention_to_vllm(m: Move, key: str, value: Any) -> Want:
    if not value:
        return Want(needless="it is off")
    return Want(merged="--data-parallel-size", why="data parallel ranks of vLLM share the experts of one model")


def _attn_dp_to_vllm(m: Move, key: str, value: Any) -> Want:
    if m.whole("parallel.dp", 1) == value:
        return Want(merged="--data-parallel-size")
    return Want((("parallel.dp", value),))


def _ep_to_vllm(m: Move, key: str, value: Any) -> Want:
    world = m.whole("parallel.tp", 1)
    if not whole(value) or value <= 1:
        return Want(needless="experts are not spread")
    odd = value != world
    why = f"vLLM spreads the experts over all {world} ranks, not over {value}" if odd else ""
    return Want(((key, world),), why, risky=odd)


def _tp_to_sglang(m: Move, key: str, value: Any) -> Want:
    ranks = m.attention_ranks
    if ranks > 1 and whole(value):
        why = f"SGLang counts all {value * ranks} ranks of the model; --dp-size shares out attention"
        return Want(((key, value * ranks),), why)
    return Want(((key, value),))


def _dp_to_sglang(m: Move, key: str, value: Any) -> Want:
    if m.attention_ranks > 1:
        why = "data parallel ranks that share experts are SGLang's DP attention"
        return Want(((key, value), ("parallel.dp_attention", True)), why)
    return Want(((key, value),))


def _ep_to_sglang(m: Move, key: str, value: Any) -> Want:
    if not whole(value) or value <= 1:
        return Want(needless="experts are not spread")
    return Want(((key, m.whole("parallel.tp", 1) * m.attention_ranks),))


def _seqs(m: Move, key: str, value: Any) -> Want:
    ranks = m.attention_ranks
    if ranks <= 1 or not whole(value):
        return Want(((key, value),))
    if m.engine == "vllm":
        return Want(((key, max(1, value // ranks)),), f"vLLM's limit is for each of {ranks} ranks")
    return Want(((key, value * ranks),), f"SGLang's limit is for all {ranks} ranks")


def _address_to_vllm(m: Move, key: str, value: Any) -> Want:
    host, _, _ = str(value).rpartition(":")
    return Want(
        (("parallel.master_addr", host or str(value)),), "the nodes meet at port 29501 unless --master-port says"
    )


def _address_to_sglang(m: Move, key: str, value: Any) -> Want:
    return Want((("parallel.dist_init_addr", f"{value}:{MEET}"),), f"SGLang wants a port too: {MEET} is one")


TABLE: Table = {
    ("vllm", "parallel.dist_init_addr"): _address_to_vllm,
    ("sglang", "parallel.master_addr"): _address_to_sglang,
    ("vllm", "parallel.tp"): _tp_to_vllm,
    ("vllm", "parallel.dp"): _dp_to_vllm,
    ("vllm", "parallel.dp_attention"): _dp_attention_to_vllm,
    ("vllm", "parallel.attn_dp_size"): _attn_dp_to_vllm,
    ("vllm", "parallel.ep"): _ep_to_vllm,
    ("sglang", "parallel.tp"): _tp_to_sglang,
    ("sglang", "parallel.dp"): _dp_to_sglang,
    ("sglang", "parallel.ep"): _ep_to_sglang,
    ("vllm", "sched.max_seqs"): _seqs,
    ("sglang", "sched.max_seqs"): _seqs,
}
