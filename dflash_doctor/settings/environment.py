"""Environment variables that tune: kept as `env.NAME`, and under their neutral key where they still act."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dflash_doctor.model import Evidence, Setting
from dflash_doctor.settings.rows import UNSET, by_variable
from dflash_doctor.settings.values import neutral

FAMILIES = (
    "VLLM_", "SGLANG_", "SGL_", "NCCL_", "RCCL_", "CUDA_", "CUBLAS", "CUDNN_", "TORCH", "PYTORCH_", "OMP_",
    "MKL_", "KMP_", "GOMP_", "FLASHINFER_", "FLASH_ATTENTION_", "FLASH_ATTN_", "TRITON_", "TRTLLM_",
    "XFORMERS_", "GLOO_", "UCX_", "MC_", "MOONCAKE_", "NIXL_", "DG_", "DEEPGEMM_", "DEEP_GEMM_", "DEEPEP_",
    "NVSHMEM_", "LMCACHE_", "RAY_", "HIP_", "ROCM_", "ROCR_", "HSA_", "AITER_", "MIOPEN_", "HCCL_", "ASCEND_",
    "TASK_QUEUE_", "XLA_", "NVIDIA_VISIBLE_", "NVIDIA_TF32_", "TOKENIZERS_", "RAYON_", "MALLOC_", "UVLOOP_",
    "OPENBLAS_", "XGRAMMAR_", "ZE_", "SYCL_", "INDUCTOR_",
)  # fmt: skip
NAMES = (
    "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONOPTIMIZE", "PYTHONASYNCIODEBUG", "PYTHONMALLOC", "PYTHONFAULTHANDLER",
    "NVLINK_MODE", "QUICK_REDUCE", "HF_HUB_OFFLINE",
)  # fmt: skip
# where it runs and who reaches it, not how fast
SILENT = re.compile(
    r"(?:_PORT|_HOST|_IP|_ADDR|_URL|_HOME|_ID|_NAME|USAGE\w*|_COMMIT|_TRACK|IMAGE_TAG|_BUILD_\w+|RAY_(?:RUNTIME|JOB|CLIENT)\w*)$"
)
SECRET = re.compile(r"KEY|TOKEN(?!IZER|S)|SECRET|PASSW|CREDENTIAL|AUTH")


def tunes(name: str) -> bool:
    """Whether a variable may change how fast a server is; secrets never count."""
    if SECRET.search(name):
        return False
    if name in by_variable("vllm") or name in by_variable("sglang") or name in NAMES:
        return True
    return name.startswith(FAMILIES) and not SILENT.search(name)


def from_environ(
    engine: str, env: Mapping[str, str], version: str | None, evidence: Mapping[str, Evidence] | None = None
) -> tuple[Setting, ...]:
    """Settings of an environment; `evidence` is the line of each variable."""
    seen = evidence or {}
    found: dict[str, Setting] = {}
    variables = by_variable(engine)  # none for "": then only the variables themselves are kept
    for name, text in env.items():
        if not tunes(name):
            continue
        found[f"env.{name}"] = Setting(f"env.{name}", text, "asked", name, seen.get(name))
        row, spelling = variables.get(name, (None, None))
        if row is None or spelling is None or row.key.startswith("env.") or spelling.acts(version) is False:
            continue
        value = neutral(row, spelling, text)
        if value is not UNSET:
            found[row.key] = Setting(row.key, value, "asked", name, seen.get(name))
    return tuple(found.values())
