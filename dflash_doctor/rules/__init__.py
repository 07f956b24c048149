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
    "cudagraph.capture_failed",
    "cudagraph.batch_not_covered",
    "cudagraph.mode_downgraded",
    "cudagraph.draft_not_captured",
    "cudagraph.replay_incorrect",
    "compile.disabled",
    "compile.recompiling",
    "attention.backend_fallback",
    "attention.backend_changed",
    "attention.library_mismatch",
    "attention.draft_backend_mismatch",
    "attention.window_ignored",
    "spec.not_active",
    "spec.acceptance_collapse",
    "spec.drafter_target_mismatch",
    "spec.drafter_undertrained",
    "spec.acceptance_decays_with_context",
    "spec.draft_length_mistuned",
    "spec.overloaded_batch",
    "spec.drafter_cost_exceeds_gain",
    "spec.sampling_mismatch",
    "spec.template_mismatch",
    "spec.method_changed",
    "spec.quantized_target_or_draft",
    "nccl.transport_degraded",
    "nccl.p2p_disabled",
    "nccl.custom_allreduce_disabled",
    "nccl.version_changed",
    "nccl.topology",
    "gpu.clock_throttle",
    "gpu.power_cap",
    "gpu.hidden_power_state",
    "gpu.pcie_degraded",
    "gpu.xid_ecc",
    "gpu.shared_by_other_process",
    "gpu.mig_or_vgpu",
    "kv.capacity_shrunk",
    "kv.preemption",
    "kv.prefix_cache_off",
    "kv.dtype_changed",
    "sched.batch_limits",
    "sched.async_or_overlap_disabled",
    "sched.chunked_prefill",
    "quant.kernel_fallback",
    "moe.untuned_config",
    "moe.backend_changed",
    "model.dtype_or_weights_changed",
    "host.cpu_bound",
    "host.numa_or_affinity",
    "host.api_server_bound",
    "parallelism.unequal_gpus",
    "parallelism.changed",
    "guided_decoding.slow",
    "version.engine_regression",
    "version.dependency_regression",
    "server.failing",
    "workload.changed",
    "measurement.artifact",
)


def module(cause: str) -> ModuleType:
    """The rule of a cause."""
    return import_module(f"dflash_doctor.rules.{cause}")


def all_rules() -> tuple[tuple[str, ModuleType], ...]:
    """Every rule with its cause's name."""
    return tuple((name, module(name)) for name in NAMES)
