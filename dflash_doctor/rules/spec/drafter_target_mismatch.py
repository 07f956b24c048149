"""The drafter does not belong to this target, or is wired to it wrongly.

## What it sees
The first drafted position is accepted next to never; or the log says at load that weights of the drafter were skipped,
shared or overwritten, that layers or vocabulary do not fit. A drafter that worked before and gives nothing now.

## Why it costs you
Every step drafts and verifies a block for nothing; speculation is then a pure cost.

## How to confirm
Exactly 1.00 tokens per step on every line, whatever the text, even on the copy task: no sampling or training fault does
that. Look for loader warnings, which are printed once.

## What usually did it
A drafter of another model size or revision; an engine release that shares or overwrites lm_head or embeddings; wrong
target layer ids; a quantised checkpoint whose ignore list hides the drafter's own weights; another tokenizer or RoPE.

## When it is wrong
A poor drafter still gets one first token in ten. If the target's quantisation changed as well, look at
`spec.quantized_target_or_draft` first. Speculation that does not run at all is `spec.not_active`.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding, Signal
from dflash_doctor.physics import TOKENS
from dflash_doctor.rules.drafting import WIRED_WRONGLY, acceptance, drafting, fell, same_drafter, shown
from dflash_doctor.rules.seen import new, proof

WIRING = (
    "spec.weights_sharing",
    "spec.aux_layers",
    "spec.vocab_mismatch",
    "spec.block_mismatch",
    "spec.weights_skipped",
    "spec.drafter_init",
)


def check(c: Comparison) -> Finding | None:
    now = drafting(c.now)
    if not now.on:
        return None
    dead = now.useless or (now.first is not None and now.first < WIRED_WRONGLY)
    said = _wiring(c)
    warned = [s for s in said if s.level in ("WARNING", "ERROR")]
    retargeted = [d for d in c.drift("model.path", "model.revision") if d.was and d.now] if same_drafter(c) else []
    if not dead and not (warned and fell(c)) and not (retargeted and fell(c)):
        return None
    if c.was is not None and not fell(c) and drafting(c.was).on:
        return None  # it was as dead when tuned
    same = same_drafter(c)
    confidence = 0.55 + 0.2 * bool(warned) + 0.1 * dead + 0.05 * (same and dead) + 0.1 * (bool(retargeted) and not dead)
    changed = " since the tuned state, with the same drafter" if same else ""
    words = f"hardly any drafted token is right ({shown(now)}){changed}: the drafter is not wired to this target"
    if not dead and retargeted:
        words = f"the drafter was made for another target ({retargeted[0].words()}); it keeps {shown(now)}"
    return Finding(
        cause="",
        summary=words,
        confidence=min(confidence, 0.92),
        severity="critical",
        evidence=(*proof(*warned, *said[:2]), *acceptance(c.now), *proof(c.now.settings.get("spec.draft_model"))),
        effects=("spec.acceptance_collapse",),
        next_steps=_steps(c, now.drafter),
        touches=(TOKENS,),
    )


def _wiring(c: Comparison) -> list[Signal]:
    found = list(new(c, *WIRING))
    # a loader that skips weights of the drafter says so in words that differ by release
    for s in new(c, "unknown"):
        text = s.evidence.text.lower()
        if any(
            w in text for w in ("skip", "missing", "not found", "unexpected", "not initialized", "mismatch")
        ) and any(w in text for w in ("draft", "mtp", "eagle", "dflash", "lm_head", "embed_tokens", "nextn")):
            found.append(s)
    return found


def _steps(c: Comparison, drafter: object) -> tuple[str, ...]:
    named = (
        f"check that {drafter} was made for {c.now.value('model.path')}" if drafter else "check which drafter is loaded"
    )
    return (
        named,
        "search the start of the log for weights that were skipped, shared or not found",
        "turn speculation off until it is fixed",
    )
