"""Whether two values of one setting mean the same."""

from __future__ import annotations

import math
from typing import Any

from dflash_doctor.settings.rows import SETTINGS
from dflash_doctor.settings.values import as_bool, as_float

# values that say nothing; a secret that somebody hid may be the one that stands open on the other side
UNKNOWN = (None, "", "auto", "default", "***", "<redacted>")

# one kernel family under the names of both engines and of several ages
ATTENTION = {
    "flash_attn": "flash", "fa2": "flash", "fa3": "flash", "fa4": "flash", "flash_attention": "flash",
    "flash_attn_mla": "flash mla", "flashinfer": "flashinfer", "trtllm_mha": "trtllm", "trtllm_gen": "trtllm",
    "flashinfer_mla": "trtllm mla", "trtllm_mla": "trtllm mla", "triton_mla": "triton", "triton": "triton",
    "triton_attn": "triton",
    "torch_native": "torch", "torch_sdpa": "torch", "cpu_attn": "torch", "intel_amx": "torch",
    "flashmla_sparse": "sparse mla", "flashinfer_mla_sparse": "sparse mla", "nsa": "sparse mla",
}  # fmt: skip
# formats, not the kernels that run them; a checkpoint read by itself and one named by flag agree
QUANTIZATION = {
    "modelopt_fp4": "nvfp4", "nvfp4": "nvfp4", "modelopt_mxfp8": "mxfp8", "mxfp8": "mxfp8",
    "gptq_marlin": "gptq", "gptq": "gptq", "awq_marlin": "awq", "awq": "awq", "fp8": "fp8", "modelopt_fp8": "fp8",
    "modelopt": "modelopt", "fbgemm_fp8": "fp8", "w8a8_fp8": "fp8", "w8a8_int8": "int8", "gpt_oss_mxfp4": "mxfp4",
    "unquant": "none", "none": "none", "compressed-tensors": "compressed-tensors",
    "compressed_tensors": "compressed-tensors", "inc": "auto-round", "auto-round": "auto-round",
    "auto_round": "auto-round",
}  # fmt: skip
FULL = ("auto", "", "bfloat16", "float16", "float32")
# `modelopt` alone is either of its formats
WIDER = {frozenset({"modelopt", "nvfp4"}), frozenset({"modelopt", "fp8"})}


def alike(key: str, was: Any, now: Any) -> bool:
    """True when the two mean the same, or when one of them says nothing ("auto")."""
    row = SETTINGS.get(key)
    same = row.same if row else "value"
    if same == "any":
        return True
    if was == now and type(was) is type(now):
        return True
    if same == "kv" and "auto" in (was, now):
        # auto follows the model: 16 bits, unless a rare checkpoint brings scales of its own
        return all(v is None or str(v) in FULL for v in (was, now))
    if _silent(was) or _silent(now):
        return True
    if isinstance(was, (list, tuple)) or isinstance(now, (list, tuple)):
        return _items(was) == _items(now)
    if same == "path":
        return last_part(was) == last_part(now)
    if same == "attention":
        return _family(ATTENTION, was) == _family(ATTENTION, now)
    if same == "quantization":
        pair = {_family(QUANTIZATION, was), _family(QUANTIZATION, now)}
        return len(pair) == 1 or frozenset(pair) in WIDER
    return _equal(was, now, row.kind if row else "")


def last_part(path: Any) -> str:
    """`/models/hub/Qwen3-8B/` -> `qwen3-8b`; a snapshot of the Hugging Face cache -> its model's name."""
    parts = [p for p in str(path).replace("\\", "/").lower().split("/") if p]
    for i, part in enumerate(parts):
        if part.startswith("models--") and parts[i + 1 : i + 2] in (["snapshots"], []):
            return part.rsplit("--", 1)[-1]
    return parts[-1] if parts else ""


def _silent(value: Any) -> bool:
    return value in UNKNOWN if value is None or isinstance(value, str) else value == ()


def _items(value: Any) -> tuple[str, ...]:
    many = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(str(v) for v in many)


def _family(table: dict[str, str], value: Any) -> str:
    text = str(value).lower()
    return table.get(text, text)


def _equal(was: Any, now: Any, kind: str) -> bool:
    if kind == "bool" or isinstance(was, bool) or isinstance(now, bool):
        a, b = as_bool(was), as_bool(now)
        if a is not None and b is not None:
            return a is b
    a, b = as_float(was), as_float(now)
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
    return str(was).strip() == str(now).strip()
