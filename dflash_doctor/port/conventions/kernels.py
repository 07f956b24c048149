"""Kernels: attention of target and drafter, quantised layers, experts and their exchange."""

from __future__ import annotations

from typing import Any

from dflash_doctor.port import tables
from dflash_doctor.port.conventions.wants import Parts, Table, Want
from dflash_doctor.port.move import SILENT, Move
from dflash_doctor.settings.versions import number

BACKEND, FA, TRTLLM = "attention.backend", "attention.fa_version", "attention.use_trtllm"
LATENT = {
    "triton": "triton_mla",
    "flashinfer": "flashinfer_mla",
    "fa3": "flash_attn_mla",
    "flash_attn": "flash_attn_mla",
}


def _attention_to_vllm(m: Move, key: str, value: Any) -> Want:
    if m.mla and value in LATENT:
        return Want(((BACKEND, LATENT[value]),), "the model has latent attention")
    if value in ("fa3", "fa4"):
        return Want(((BACKEND, "flash_attn"), (FA, int(value[2]))))
    if value == "trtllm_mha":
        return Want(((BACKEND, "flashinfer"), (TRTLLM, True)))
    if value == "flashinfer" and m.drafts_there and not _verifies_in_graphs(m):
        why = "vLLM's FlashInfer verifies drafts outside full graphs on this card; FLASH_ATTN keeps them"
        return Want(((BACKEND, "flash_attn"),), why, risky=True)
    return Want(((BACKEND, value),))


def _verifies_in_graphs(m: Move) -> bool:
    """Whether vLLM's FlashInfer keeps full graphs while it verifies drafts (its backend's get_cudagraph_support)."""
    here = number(m.card.compute_capability) if m.card is not None else None
    if here is None:
        return True  # not known: what was tuned stays
    since = {10: (0,), 12: (0, 29)}.get(here[0], (0, 33))
    return (number(m.version) or ()) >= since


def _phase_to_vllm(m: Move, key: str, value: Any) -> Want:
    backend = m.value(BACKEND)
    if value == backend:
        return Want(merged="--attention-backend")
    if backend in SILENT and key == "attention.decode_backend":
        parts = _attention_to_vllm(m, key, value).parts
        return Want(parts, "vLLM runs one backend in both phases; decode decides", risky=True)
    return Want(missing=tables.hint(key, "vllm"))


def _fa_to_vllm(m: Move, key: str, value: Any) -> Want:
    if m.value(BACKEND) in ("fa3", "fa4"):
        return Want(merged="the attention backend")
    return Want(((key, value),))


def _attention_to_sglang(m: Move, key: str, value: Any) -> Want:
    version = m.value(FA)
    if value == "flash_attn" and version in (3, 4):
        return Want(((BACKEND, f"fa{version}"),))
    if value == "flash_attn" and version == 2:
        why = "SGLang has no FlashAttention 2; FlashInfer is what it takes where only that runs"
        return Want(((BACKEND, "flashinfer"),), why, risky=True)
    if value == "flash_attn" and m.card is None:
        return Want(((BACKEND, "fa3"),), "FlashAttention 3 if the card is a Hopper; flashinfer elsewhere", risky=True)
    if value == "flashinfer" and m.value(TRTLLM):
        return Want(((BACKEND, "trtllm_mha"),))
    return Want(((BACKEND, value),))


def _fa_to_sglang(m: Move, key: str, value: Any) -> Want:
    if m.value(BACKEND) in ("flash_attn", "fa3", "fa4"):
        return Want(merged="--attention-backend")
    return Want(((BACKEND, f"fa{value}"),))


def _trtllm_to_sglang(m: Move, key: str, value: Any) -> Want:
    if value and m.value(BACKEND) == "flashinfer":
        return Want(merged="--attention-backend")
    return Want(((BACKEND, "trtllm_mha" if value else "flashinfer"),))


def _kernel_to_vllm(m: Move, key: str, value: Any) -> Want:
    return Want((("quant.kernel", value),), "vLLM has one flag for all formats")


def _kernel_to_sglang(m: Move, key: str, value: Any) -> Want:
    four = "fp4" in str(m.value("model.quantization", ""))
    return Want((("quant.fp4_kernel" if four else "quant.fp8_kernel", value),), "SGLang has a flag for each format")


def _quantization(m: Move, key: str, value: Any) -> Want:
    if value in ("unquant", "none"):
        return Want(needless="the weights are not quantized")
    if value in ("w8a8_fp8", "w8a8_int8") and m.engine == "vllm":
        return Want(needless="vLLM reads it from the checkpoint")
    return Want(((key, value),))


def _all2all_to_vllm(m: Move, key: str, value: Any) -> Want:
    if value != "deepep":
        return Want(((key, value),))
    mode = m.value("moe.deepep_mode", "auto")
    word = "deepep_low_latency" if mode == "low_latency" else "deepep_high_throughput"
    unsure = mode == "auto"
    why = "SGLang changes between the two modes by phase; this one is for throughput" if unsure else ""
    return Want(((key, word),), why, risky=unsure)


def _all2all_to_sglang(m: Move, key: str, value: Any) -> Want:
    mode = {"deepep_low_latency": "low_latency", "deepep_high_throughput": "normal"}.get(str(value))
    parts: Parts = ((key, value),)
    return Want((*parts, ("moe.deepep_mode", mode)) if mode else parts)


def _deepep_mode_to_vllm(m: Move, key: str, value: Any) -> Want:
    if m.value("moe.all2all_backend") == "deepep":
        return Want(merged="--all2all-backend")
    return Want(needless="DeepEP is not used")


TABLE: Table = {
    ("vllm", BACKEND): _attention_to_vllm,
    ("vllm", "attention.decode_backend"): _phase_to_vllm,
    ("vllm", "attention.prefill_backend"): _phase_to_vllm,
    ("vllm", FA): _fa_to_vllm,
    ("sglang", BACKEND): _attention_to_sglang,
    ("sglang", FA): _fa_to_sglang,
    ("sglang", TRTLLM): _trtllm_to_sglang,
    ("vllm", "quant.fp8_kernel"): _kernel_to_vllm,
    ("vllm", "quant.fp4_kernel"): _kernel_to_vllm,
    ("vllm", "quant.bf16_kernel"): _kernel_to_vllm,
    ("sglang", "quant.kernel"): _kernel_to_sglang,
    ("vllm", "model.quantization"): _quantization,
    ("sglang", "model.quantization"): _quantization,
    ("vllm", "moe.all2all_backend"): _all2all_to_vllm,
    ("sglang", "moe.all2all_backend"): _all2all_to_sglang,
    ("vllm", "moe.deepep_mode"): _deepep_mode_to_vllm,
}
