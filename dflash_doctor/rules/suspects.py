"""What could be behind a loss that no cause explains: each candidate root, and what speaks for or against it.

A candidate stands in a row with the facts that would differ if it were the cause. A fact that differs speaks for it,
one that both sides know and that is equal speaks against it, and one that a side does not know leaves it open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dflash_doctor import settings
from dflash_doctor.model import Comparison, Snapshot, Suspect
from dflash_doctor.physics import PREFILL, QUEUE, STEP, TOKENS
from dflash_doctor.rules.drafting import WIRED_WRONGLY, drafting, short_and_long

ENOUGH = 0.03  # numbers of two sides that are closer than this are the same


@dataclass(frozen=True)
class Candidate:
    """One root: settings and GPU readings under load that would differ, and where needed a look of its own."""

    cause: str
    keys: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    look: Callable[[Comparison], tuple[bool | None, str] | None] | None = None


def suspects(c: Comparison, touch: str) -> tuple[Suspect, ...]:
    """The candidates for a loss of one factor of the speed, those that something speaks for first, then the open ones.

    `touch` is a name of physics: tokens per step, step time, prefill, queue. Nothing without a baseline.
    """
    if c.was is None:
        return ()
    alone = c.now.value("parallel.tp") == 1 and c.was.value("parallel.tp") == 1  # then nothing is sent between cards
    candidates = (x for x in CANDIDATES.get(touch, ()) if not (alone and x.cause.startswith("nccl.")))
    seen = [_seen(c, x) for x in candidates]
    order = {True: 0, None: 1, False: 2}
    return tuple(sorted(seen, key=lambda s: order[s.speaks]))


def _seen(c: Comparison, candidate: Candidate) -> Suspect:
    was = c.was
    assert was is not None
    if candidate.look is not None:
        looked = candidate.look(c)
        if looked is not None:
            return Suspect(candidate.cause, *looked)
    differing = [d.words() for d in c.drift(*candidate.keys)]
    differing += [f"{d.metric} {d.was:.4g} -> {d.now:.4g}" for d in c.delta(*candidate.metrics) if d.verdict == "worse"]
    differing += [w for key in candidate.gpu if (w := _card(key, was, c.now)) and "->" in w]
    if differing:
        return Suspect(candidate.cause, True, "; ".join(differing[:2]))
    same = [f"{k} {_short(c.now.value(k))}" for k in candidate.keys if _known(k, c.now) and _known(k, was)]
    same += [f"{d.metric} {d.now:.4g}" for d in c.delta(*candidate.metrics)]
    same += [w for key in candidate.gpu if (w := _card(key, was, c.now))]
    if same:
        return Suspect(candidate.cause, False, f"{', '.join(same[:2])} as before")
    return Suspect(candidate.cause, None, ", ".join((*candidate.keys, *candidate.gpu, *candidate.metrics)[:2]))


def _known(key: str, s: Snapshot) -> bool:
    if key.startswith("engine."):
        return s.version is not None
    if key.startswith("package."):
        return key.removeprefix("package.") in s.packages
    return key in s.settings


def _card(key: str, was: Snapshot, now: Snapshot) -> str:
    """One GPU reading under load, the worst card of each side."""
    before, after = was.gpu_numbers(key), now.gpu_numbers(key)
    if not before or not after:
        return ""
    a, b = min(before.values()), min(after.values())
    return f"{key} {a:g}" if abs(a - b) <= ENOUGH * max(abs(a), abs(b)) else f"{key} {a:g} -> {b:g}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else text[:23] + "…"


# -- looks of their own -----------------------------------------------------------------------------------------------


def _wiring(c: Comparison) -> tuple[bool | None, str] | None:
    first = drafting(c.now).first
    if first is None:
        return None
    return first < WIRED_WRONGLY, f"the first drafted position is accepted in {first:.0%} of the steps"


def _training(c: Comparison) -> tuple[bool | None, str] | None:
    now, was = drafting(c.now).drafter, drafting(c.was).drafter if c.was else None
    if now is None or was is None:
        return None
    return (False, "the same drafter as before") if settings.alike("spec.draft_model", was, now) else (True, "another")


def _context(c: Comparison) -> tuple[bool | None, str] | None:
    found = short_and_long(c.now)
    if found is None:
        return None, "acceptance at short and at long contexts"
    return found[1] < 0.75 * found[0], f"{found[0]:.2f} at short contexts, {found[1]:.2f} at long ones"


CANDIDATES: dict[str, tuple[Candidate, ...]] = {
    TOKENS: (
        Candidate("spec.not_active", ("spec.method",)),
        Candidate("spec.drafter_target_mismatch", ("model.path", "spec.draft_model"), look=_wiring),
        Candidate("spec.drafter_undertrained", look=_training),
        Candidate("spec.draft_length_mistuned", ("spec.depth", "spec.topk")),
        Candidate("spec.acceptance_decays_with_context", look=_context),
        Candidate("spec.sampling_mismatch", ("sampling.*", "spec.draft_sampling", "spec.rejection")),
        Candidate("spec.template_mismatch", ("model.chat_template",)),
        Candidate("spec.quantized_target_or_draft", ("model.quantization", "spec.draft_quantization", "kv.dtype")),
        Candidate("attention.window_ignored", ("spec.draft_window", "attention.sliding_window")),
        Candidate("attention.draft_backend_mismatch", ("attention.draft_backend",)),
        Candidate("cudagraph.replay_incorrect", ("cudagraph.mode", "cudagraph.draft_mode")),
        Candidate("version.engine_regression", ("engine.name", "engine.version")),
    ),
    STEP: (
        Candidate("cudagraph.disabled", ("cudagraph.mode", "cudagraph.sizes", "cudagraph.max_size")),
        Candidate("compile.disabled", ("compile.mode",)),
        Candidate("attention.backend_changed", ("attention.backend", "attention.fa_version")),
        Candidate("spec.draft_length_mistuned", ("spec.method", "spec.depth")),
        Candidate("quant.kernel_fallback", ("quant.kernel", "model.quantization", "model.dtype")),
        Candidate("moe.backend_changed", ("moe.backend",)),
        Candidate("kv.dtype_changed", ("kv.dtype",)),
        Candidate("nccl.custom_allreduce_disabled", ("comm.custom_allreduce", "comm.flashinfer_allreduce")),
        Candidate("nccl.transport_degraded", ("comm.nvls", "comm.symm_mem", "env.NCCL_*")),
        Candidate("nccl.version_changed", ("comm.nccl_version",)),
        Candidate("parallelism.changed", ("parallel.tp", "parallel.pp", "parallel.dp", "parallel.ep")),
        Candidate("sched.async_or_overlap_disabled", ("sched.async",)),
        Candidate("gpu.clock_throttle", gpu=("clocks.sm", "clocks.mem")),
        Candidate("gpu.power_cap", gpu=("power.limit",)),
        Candidate("gpu.pcie_degraded", gpu=("pcie.link.width.current", "pcie.link.gen.current")),
        Candidate("host.cpu_bound", ("host.governor", "host.cgroup.cpu_max")),
        Candidate("version.engine_regression", ("engine.name", "engine.version")),
        Candidate("version.dependency_regression", ("package.torch", "package.flashinfer-python", "gpu.driver")),
    ),
    PREFILL: (
        Candidate("sched.chunked_prefill", ("sched.chunked_prefill", "sched.max_tokens")),
        Candidate("kv.prefix_cache_off", ("sched.prefix_cache",), metrics=("prefix_hit_rate",)),
        Candidate("attention.backend_changed", ("attention.backend", "attention.prefill_backend")),
        Candidate("gpu.clock_throttle", gpu=("clocks.sm",)),
        Candidate("gpu.power_cap", gpu=("power.limit",)),
        Candidate("host.api_server_bound", ("host.api_servers", "host.tokenizer_mode")),
        Candidate("version.engine_regression", ("engine.name", "engine.version")),
    ),
    QUEUE: (
        Candidate("sched.batch_limits", ("sched.max_seqs", "sched.max_tokens")),
        Candidate("kv.capacity_shrunk", ("mem.fraction", "mem.max_context"), metrics=("kv_tokens",)),
        Candidate("kv.preemption", metrics=("preemptions",)),
    ),
}
