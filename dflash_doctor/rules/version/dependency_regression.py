"""A dependency below the engine changed: torch, Triton, FlashInfer, the driver, firmware; nothing else explains it.

## What it sees
Packages or the GPU driver differ from the baseline while the engine is the same, a measured slow-down, and no fault
that would explain it.

## Why it costs you
Kernels are compiled by these and come from these; a release of one can halve a path that only your model takes.

## How to confirm
Put one of them back at a time, the one nearest to the slow kernel first.

## What usually did it
An image rebuilt without pins; a host upgrade of the driver; a new torch pulled in by a plug-in.

## When it is wrong
When the engine itself changed too: then it needs the newer ones, and the release is what to look at. An attention
library has its own finding.
"""

from __future__ import annotations

import re

from dflash_doctor.model import Comparison, Drift, Finding
from dflash_doctor.physics import PREFILL, QUEUE, STEP, TOKENS
from dflash_doctor.rules.seen import proof

LEFTOVER = True
MATTERS = re.compile(
    r"^package\.(torch|triton|pytorch-triton|flashinfer|flash-attn|sgl-kernel|nvidia-(cuda|cublas|cudnn|nccl|cutlass)|"
    r"xformers|deep-?gemm|deep-?ep|cutlass|tilelang|apache-tvm|quack|transformer-engine|aiter|cuda|cupy)",
    re.I,
)


def check(c: Comparison) -> Finding | None:
    changed = [d for d in c.drift("package.*") if MATTERS.match(d.key)] + list(
        c.drift("gpu.driver", "host.cuda_version")
    )
    if not changed or c.was is None:
        return None
    with_engine = bool(c.drift("engine.version"))
    words = "; ".join(d.words().removeprefix("package.") for d in _telling(changed)[:3])
    return Finding(
        cause="",
        summary=words,
        confidence=0.3 if with_engine else 0.85,
        severity="warning",
        evidence=proof(*_telling(changed)[:4]),
        next_steps=tuple(_back(d) for d in _telling(changed)[:2]),
        touches=(STEP, TOKENS, PREFILL, QUEUE),
    )


def _telling(changed: list[Drift]) -> list[Drift]:
    """torch and compilers before the libraries that come with them."""
    first = ("package.torch", "package.triton", "gpu.driver", "package.flashinfer-python", "package.sgl-kernel")
    return sorted(changed, key=lambda d: first.index(d.key) if d.key in first else len(first))


def _back(d: Drift) -> str:
    was = d.was.value if d.was else "the old version"
    if d.key.startswith("package."):
        return f"pip install '{d.key.removeprefix('package.')}=={was}'  # in a copy of the image, not in place"
    return f"go back to {d.key} {was}"
