"""The attention kernel library (flash-attn, FlashInfer, …) has a wrong or changed version.

## What it sees
The library's package changed since the baseline, or a package is installed where another was meant (flash-attn-4 for
flash-attn 2), or the engine says that the library's parts do not fit together or cannot be imported.

## Why it costs you
A wrong library falls back, compiles at run time, picks another kernel for "auto", or does not start at all.

## How to confirm
`pip list | grep -i -E 'flash|cutlass'` in the engine's environment, and the import it fails on.

## What usually did it
A pre-release pulled in by a dependency; an image rebuilt without pins; two packages that provide one module.

## When it is wrong
When the library changed together with the engine release that needs it. Then the release is what changed.
"""

from __future__ import annotations

import re

from dflash_doctor.model import Comparison, Drift, Evidence, Finding, Signal
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.seen import new, new_about, proof, proofs

LIBRARY = re.compile(
    r"flash[-_]?attn|_fa[23]_c|flashinfer|flash[-_]?mla|xformers|sageattention|sgl[-_]kernel|fa3|flash[-_]attention",
    re.I,
)
FAILED = re.compile(r"importerror|modulenotfound|no module named|undefined symbol|cannot import", re.I)
BROKEN = re.compile(
    r"cannot import|importerror|modulenotfound|no module named|undefined symbol|has no attribute|"
    r"mismatch|incompatible|version",
    re.I,
)


def check(c: Comparison) -> Finding | None:
    drifted = [d for d in c.drift("package.*") if LIBRARY.search(d.key)]
    said = [*new_about(c, "flashinfer_missing"), *_broken(c)]
    wrong = _wrong_generation(c)
    lower = _older_kernels(c)
    noted = _noted(c)
    if not drifted and not said and not wrong and not lower and not noted:
        return None
    if c.was is not None and not drifted and not said and not lower and not noted:
        return None
    broken = (bool(said) and (c.now.served is False or bool(wrong))) or bool(noted)
    confidence = 0.9 if broken and (drifted or wrong) else 0.75 if broken else 0.6 if drifted and c.slower else 0.5
    if drifted and not broken and c.drift("engine.version", "package.torch"):
        confidence = min(confidence, 0.3)  # it was rebuilt for the other one
    words = "; ".join(d.words().removeprefix("package.") for d in drifted[:2]) or "it does not fit this engine"
    if lower:
        words = f"{lower[0].words()} with the same engine, and nobody asked for it: the newer kernels do not load"
        confidence = max(confidence, 0.8 if len(lower) > 1 or noted else 0.55)
    if wrong:
        words = f"{wrong} is installed where FlashAttention 2 or 3 is meant"
    return Finding(
        cause="",
        summary=f"attention kernel library: {words}" + ("; the server does not start" if c.now.served is False else ""),
        confidence=confidence,
        severity="critical" if broken else "warning",
        evidence=(*proofs(said[:4]), *noted, *proof(*drifted, *lower), *_package_line(wrong)),
        effects=("server.failing",) if c.now.served is False else ("attention.backend_changed",),
        next_steps=_steps(drifted, wrong),
        touches=(STEP, PREFILL),
    )


def _broken(c: Comparison) -> list[Signal]:
    """Errors that name the library and say that it does not fit."""
    loud = [s for s in new(c, "unknown", "err.*", "attn.*") if s.level in ("WARNING", "ERROR", "CRITICAL")]
    return [s for s in loud if LIBRARY.search(s.evidence.text) and BROKEN.search(s.evidence.text)]


def _older_kernels(c: Comparison) -> tuple[Drift, ...]:
    """FlashAttention of an older generation in the same engine that nobody asked for, and packages that changed."""
    fell = [d for d in c.drift("attention.fa_version") if d.was and d.now and str(d.now.value) < str(d.was.value)]
    if not fell or c.drift("engine.*", "attention.backend") or "attention.fa_version" in c.now.asked:
        return ()
    return (*fell, *c.drift("package.torch", "package.flash-attn", "package.vllm-flash-attn", "package.sgl-kernel"))


def _noted(c: Comparison) -> tuple[Evidence, ...]:
    """What a person noted beside the capture, where it is such an error."""
    note = str(c.now.host.get("note") or "")
    return (Evidence("capture.yaml", note),) if LIBRARY.search(note) and FAILED.search(note) else ()


def _wrong_generation(c: Comparison) -> str | None:
    """flash-attn-4 is a package of its own that provides the module of flash-attn; beside it 2.x is hidden."""
    four = c.now.packages.get("flash-attn-4")
    if four is None or (c.was is not None and "flash-attn-4" in c.was.packages):
        return None
    return f"flash-attn-4 {four}"


def _package_line(wrong: str | None) -> tuple[Evidence, ...]:
    return (Evidence("packages.txt", wrong.replace(" ", "==")),) if wrong else ()


def _steps(drifted: list[Drift], wrong: str | None) -> tuple[str, ...]:
    if wrong:
        return ("pip uninstall -y flash-attn-4 && pip install --force-reinstall 'flash-attn<3'",)
    steps = [f"pip install '{d.key.removeprefix('package.')}=={d.was.value}'" for d in drifted if d.was is not None]
    return tuple(steps) or ("pip list | grep -i -E 'flash|sgl|cutlass'  # in the engine's environment",)
