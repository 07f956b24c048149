"""Too many or too few tokens are drafted for the acceptance at hand.

## What it sees
The draft length changed against the baseline and step time changed with it; or the last drafted positions are hardly
ever accepted, so most of the block is paid for nothing, although the first positions are good.

## Why it costs you
A serial drafter (EAGLE, MTP, a draft model) runs once per drafted token. A block drafter pays once, but verification of
a longer block costs memory and, on mixtures of experts, reads more experts.

## How to confirm
Read acceptance by position: A(K) = 1 + the sum of the first K. Past the K where it stops growing every token is lost.

## What usually did it
A recipe's number for another drafter; a block size taken from the checkpoint's default; the other engine's convention,
which counts one more.

## When it is wrong
A broken or poor drafter has no good length: fix or drop it first. A longer draft that raises tokens per step more than
step time is well tuned.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Finding
from dflash_doctor.physics import STEP, TOKENS, best_depth
from dflash_doctor.rules.drafting import SERIAL, acceptance, drafting, same_drafter
from dflash_doctor.rules.seen import proof, put_back

GOOD_FIRST = 0.4  # below this the drafter is the question, not its length


def check(c: Comparison) -> Finding | None:
    now = drafting(c.now)
    if now.method in (None, "none") or not now.depth or now.length is None:
        return None
    was = drafting(c.was) if c.was else None
    changed = [d for d in c.drift("spec.depth", "spec.topk") if d.was and d.now] if was and same_drafter(c) else []
    enough = _enough(now.curve)
    wasteful = (
        enough is not None and (now.first or 0) >= GOOD_FIRST and enough <= now.depth / 3 and now.method in SERIAL
    )
    if not changed and not wasteful:
        return None
    if changed and was and was.length and now.length < 0.7 * was.length and (now.first or 1) < 0.3:
        return None  # the drafter broke; its length is not the question
    words = changed[0].words() if changed else f"{now.depth} tokens are drafted"
    if enough is not None:
        words += f"; {enough} would keep 95 % of the {now.length:.2f} tokens per step"
    steps = tuple(put_back(d) for d in changed) or (f"draft {enough} tokens instead of {now.depth}",)
    return Finding(
        cause="",
        summary=words,
        confidence=0.8 if changed and (wasteful or c.slower) else 0.6 if wasteful and now.depth >= 8 else 0.4,
        severity="warning",
        evidence=(*acceptance(c.now), *proof(*changed, c.now.settings.get("spec.depth"))),
        next_steps=steps,
        touches=(STEP, TOKENS),
    )


def _enough(curve: tuple[float, ...]) -> int | None:
    """The shortest draft that keeps 95 % of what the whole block gives beyond one token."""
    if len(curve) < 2:
        return None
    gains = [a - 1 for a in best_depth(curve)]
    return next((k for k, g in enumerate(gains) if k and g >= 0.95 * gains[-1]), None) if gains[-1] > 0 else None
