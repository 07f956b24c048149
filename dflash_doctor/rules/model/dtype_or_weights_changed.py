"""Other weights, another quantisation or another dtype than when tuned.

## What it sees
The model's path, revision, architecture, dtype or quantisation differs, or loading it takes clearly more memory.

## Why it costs you
A decode step reads every active weight once: twice the bytes per weight is up to twice the time. Other weights also
change what a drafter gets right.

## How to confirm
Hold the memory of the loaded model and the quantisation line of both starts against each other.

## What usually did it
A checkpoint that was replaced under the same name; a quantised build that went missing; `--dtype` from another recipe.

## When it is wrong
The same checkpoint under another path is no change. Two engines name one quantisation differently; the table knows the
common names.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Drift, Evidence, Finding, Signal, Snapshot
from dflash_doctor.physics import PREFILL, STEP, TOKENS
from dflash_doctor.rules.seen import proof, proofs, put_back, same_engine

MORE = 1.25  # as much memory as before: no other build of one checkpoint takes that much more
KEYS = ("model.path", "model.revision", "model.architecture", "model.dtype", "model.quantization")


def check(c: Comparison) -> Finding | None:
    changed = [d for d in c.drift(*KEYS) if d.was is not None and d.now is not None]
    heavier = _heavier(c)
    behind = heavier is not None and heavier > MORE and same_engine(c) and not _loads_more(c)
    if c.was is None or not (changed or behind):
        return None
    strong = [d for d in changed if d.key in ("model.dtype", "model.quantization", "model.architecture")]
    confidence = (0.75 if strong or heavier else 0.55) if same_engine(c) else 0.35
    words = "; ".join(d.words() for d in changed[:3])
    if not changed:
        confidence, words = 0.8, f"{c.now.value('model.path') or 'the same name'} is another checkpoint than it was"
    if heavier:
        words += f"; the weights take {heavier:.2f}x the memory"
    return Finding(
        cause="",
        summary=words,
        confidence=confidence,
        severity="warning",
        evidence=(*proof(*changed, *(d.was for d in changed)), *(_weighed(c) if heavier else ())),
        next_steps=tuple(_back(d) for d in changed[:2]) or ("look what the name or link points to, and point it back",),
        touches=(STEP, PREFILL, TOKENS),
    )


def _back(d: Drift) -> str:
    return f"serve {d.was.value} again" if d.key == "model.path" and d.was else put_back(d)


def _heavier(c: Comparison) -> float | None:
    now, was = _loaded(c.now), _loaded(c.was) if c.was else None
    return now / was if now and was and abs(now / was - 1) > 0.1 else None


def _loads_more(c: Comparison) -> bool:
    """Whether a rank has other reasons to hold more: fewer ranks, a drafter beside the target."""
    drafters = {str(s.value("spec.draft_model")) for s in (c.now, c.was) if s is not None}
    return len(drafters) > 1 or bool(c.drift("parallel.*", "mem.*", "spec.*"))


def _weighed(c: Comparison) -> tuple[Evidence, ...]:
    """The lines of both sides that tell the memory of the weights."""
    rows = [[x for x in s.find("mem.model_load", "mem.weights") if _gib(x)] for s in (c.now, c.was) if s is not None]
    return proofs(x[0] for x in rows if x)


def _gib(x: Signal) -> float | None:
    return next((f for k in ("gib", "mem", "usage") if (f := _float(x.fields.get(k)))), None)


def _loaded(s: Snapshot) -> float | None:
    """Memory of the loaded weights, GiB per rank; of target and drafter that each say so, the target's."""
    found = [f for x in s.find("mem.model_load", "mem.weights") if (f := _gib(x))]
    return max(found, default=None)


def _float(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
