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
from dflash_doctor.rules.break_even import best_length
from dflash_doctor.rules.drafting import acceptance, drafting, fell, same_drafter
from dflash_doctor.rules.seen import proof, put_back

GOOD_FIRST = 0.4  # below this the drafter is the question, not its length
WASTE = 1.1  # a length counts as mistuned where the best one would be this much faster even at that cost


def check(c: Comparison) -> Finding | None:
    now = drafting(c.now)
    if now.method in (None, "none") or not now.depth or now.length is None:
        return None
    was = drafting(c.was) if c.was else None
    changed = [d for d in c.drift("spec.depth", "spec.topk") if d.was and d.now] if was and same_drafter(c) else []
    enough, gain = best_length(now)
    wasteful = gain >= WASTE and (now.first or 0) >= GOOD_FIRST
    if not changed and (not wasteful or fell(c)):
        return None  # a length that was right before acceptance fell: that is the question
    if changed and was and was.length and now.length < 0.7 * was.length and (now.first or 1) < 0.3:
        return None  # the drafter broke; its length is not the question
    words = changed[0].words() if changed else f"{now.depth} tokens are drafted"
    if wasteful:
        kept = best_depth(now.curve)[enough]
        words += f"; {enough} would keep {kept:.2f} of the {now.length:.2f} tokens per step and save the other passes"
    steps = tuple(put_back(d) for d in changed) or (f"draft {enough} tokens instead of {now.depth}",)
    return Finding(
        cause="",
        summary=words,
        confidence=0.8 if changed and (wasteful or c.slower) else 0.6 if wasteful else 0.4,
        severity="warning",
        evidence=(*acceptance(c.now), *proof(*changed, c.now.settings.get("spec.depth"))),
        next_steps=steps,
        touches=(STEP, TOKENS),
    )
