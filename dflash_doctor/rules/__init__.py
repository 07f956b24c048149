"""One file per cause, its path is the cause's name. Each module is a page (its docstring) and `check`.

A rule only reads a Comparison and says what it sees, or None. It leaves `Finding.cause` empty. `touches` says which
factor of the speed its fault acts on; diagnose.py holds that against what was measured. `LEFTOVER = True` marks a cause
that stands only for what no other explains.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

NAMES: tuple[str, ...] = (
    "cudagraph.disabled",
    "cudagraph.batch_not_covered",
    "cudagraph.mode_downgraded",
    "attention.backend_fallback",
    "attention.backend_changed",
    "attention.library_mismatch",
    "spec.not_active",
    "spec.acceptance_collapse",
    "spec.drafter_target_mismatch",
    "spec.drafter_undertrained",
    "spec.method_changed",
    "nccl.p2p_disabled",
    "nccl.custom_allreduce_disabled",
    "gpu.clock_throttle",
    "gpu.power_cap",
    "gpu.shared_by_other_process",
    "kv.capacity_shrunk",
    "kv.preemption",
    "kv.prefix_cache_off",
    "sched.batch_limits",
    "model.dtype_or_weights_changed",
    "parallelism.changed",
    "version.engine_regression",
    "version.dependency_regression",
    "server.failing",
    "workload.changed",
)


def module(cause: str) -> ModuleType:
    """The rule of a cause."""
    return import_module(f"dflash_doctor.rules.{cause}")


def all_rules() -> tuple[tuple[str, ModuleType], ...]:
    """Every rule with its cause's name."""
    return tuple((name, module(name)) for name in NAMES)
