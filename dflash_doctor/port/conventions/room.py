"""Memory: shares of it, sizes of KV, and what is kept on the host."""

from __future__ import annotations

from typing import Any

from dflash_doctor.port import memory, tables
from dflash_doctor.port.conventions.wants import Table, Want, whole
from dflash_doctor.port.move import Move

PAGE = 16  # tokens in a block of vLLM when nobody says; also the smallest it takes on NVIDIA cards


def _fraction(m: Move, key: str, value: Any) -> Want:
    found = memory.fraction(m)
    if found is None:
        return Want(needless="neither a figure nor a KV size is known")
    return Want(((key, found.value),), found.why, risky=not found.sure)


def _page_to_vllm(m: Move, key: str, value: Any) -> Want:
    if whole(value) and value < PAGE:
        return Want(missing=f"vLLM's blocks have {PAGE} tokens or more on NVIDIA cards")
    return Want(((key, value),))


def _tokens_to_vllm(m: Move, key: str, value: Any) -> Want:
    page = max(PAGE, m.whole("kv.page_size", PAGE))
    if not whole(value):
        return Want(missing="it is no number")
    return Want((("mem.kv_blocks", -(-value // page)),), f"{value:,} tokens in blocks of {page}")


def _blocks_to_sglang(m: Move, key: str, value: Any) -> Want:
    page = m.whole("kv.page_size", PAGE)
    if not whole(value):
        return Want(missing="it is no number")
    return Want((("mem.kv_tokens", value * page),), f"{value:,} blocks of {page} tokens")


def _bytes_to_sglang(m: Move, key: str, value: Any) -> Want:
    each = memory.pool(m.tuned).per_token
    if not each or not whole(value):
        return Want(missing=tables.hint(key, "sglang"))
    return Want((("mem.kv_tokens", int(value / each)),), "bytes over the bytes of one token")


def _offload_gb_to_vllm(m: Move, key: str, value: Any) -> Want:
    if not isinstance(value, (int, float)) or value <= 0:
        return Want(needless="nothing is kept on the host")
    ranks = m.whole("parallel.tp", 1)
    why = f"vLLM counts all ranks together, SGLang each of {ranks}" if ranks > 1 else ""
    return Want(((key, float(value) * ranks),), why)


def _offload_gb_to_sglang(m: Move, key: str, value: Any) -> Want:
    if not isinstance(value, (int, float)) or value <= 0:
        return Want(needless="nothing is kept on the host")
    ranks = m.whole("parallel.tp", 1)
    each = max(1, round(float(value) / ranks))
    why = f"SGLang counts each of {ranks} ranks, vLLM all together" if ranks > 1 else ""
    return Want((("kv.offload", True), (key, each)), why)


def _offload(m: Move, key: str, value: Any) -> Want:
    size = m.value("kv.offload_gb", 0)
    if not value:
        return Want(needless="it is off")
    if isinstance(size, (int, float)) and size > 0:
        return Want(merged="--kv-offloading-size" if m.engine == "vllm" else "--hicache-size")
    return Want(missing=tables.hint(key, m.engine)) if m.engine == "vllm" else Want(((key, True),))


def _budget_to_vllm(m: Move, key: str, value: Any) -> Want:
    if not whole(value):
        return Want(((key, value),))
    floor = max(1, m.whole("sched.max_seqs", 1) // m.attention_ranks) * m.width
    if value < floor:
        why = f"vLLM's budget holds decode tokens too: {m.width} for each of {floor // m.width} running requests"
        return Want(((key, floor),), why)
    return Want(((key, value),), "vLLM's budget holds decode tokens too")


TABLE: Table = {
    ("vllm", "mem.fraction"): _fraction,
    ("sglang", "mem.fraction"): _fraction,
    ("vllm", "kv.page_size"): _page_to_vllm,
    ("vllm", "mem.kv_tokens"): _tokens_to_vllm,
    ("sglang", "mem.kv_blocks"): _blocks_to_sglang,
    ("sglang", "mem.kv_bytes"): _bytes_to_sglang,
    ("vllm", "kv.offload_gb"): _offload_gb_to_vllm,
    ("sglang", "kv.offload_gb"): _offload_gb_to_sglang,
    ("vllm", "kv.offload"): _offload,
    ("sglang", "kv.offload"): _offload,
    ("vllm", "sched.max_tokens"): _budget_to_vllm,
}
