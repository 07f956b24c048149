"""Sliding-window layers run as full attention, or the reverse.

## What it sees
The attention window of target or drafter differs from the baseline's (a setting, a loader line, a flag that the engine
says has no effect), or acceptance is fine on short prompts and falls once the context passes the window.

## Why it costs you
A drafter trained with a window guesses badly when it sees the whole prompt: acceptance falls with length. A target
without its window reads more KV at every step.

## How to confirm
Run one prompt of 1,000 and one of 20,000 tokens: the short one is as tuned, the long one is not.

## What usually did it
A converted checkpoint that lost its window keys; `--disable-sliding-window`; a loader or release that does not read the
drafter's window; a draft window flag for a method that ignores it.

## When it is wrong
Short prompts hide it. Acceptance falls a little with length for every drafter; and a target without a window has none
to lose.
"""

from __future__ import annotations

import re

from dflash_doctor.model import Comparison, Evidence, Finding, Signal, Snapshot
from dflash_doctor.physics import STEP, TOKENS
from dflash_doctor.rules.drafting import acceptance, context_of, decays, fell
from dflash_doctor.rules.seen import new, proof, proofs

WINDOW = re.compile(r"(?:n_swa|sliding[_ ]window|window[_ ]size|swa_window)\s*[=:]\s*(?P<size>\d+|None|null)", re.I)
# a window that overrides of the checkpoint's configuration take away or bring
OVERRIDDEN = re.compile(r"sliding_window|swa_window|layer_types|window_size", re.I)
KEYS = ("attention.sliding_window", "kv.hybrid_swa", "spec.draft_window")


def check(c: Comparison) -> Finding | None:
    ignored = new(c, "spec.window_ignored")
    drifted = [d for d in c.drifts if d.key in KEYS or OVERRIDDEN.search(d.words())]
    now, was = _windows(c.now), _windows(c.was) if c.was else {}
    lost = [
        e
        for size, e in now.items()
        if size == 0 and c.was and any(s > 0 for s in was) and len(was) > len(set(now) - {0})
    ]
    if not ignored and not drifted and not lost:
        return None
    shorter = decays(c) is not None or fell(c) or _worse_when_long(c)
    return Finding(
        cause="",
        summary="an attention window that the tuned server had is not in force"
        + (f" (it was {max(was)} tokens)" if lost else "")
        + "; acceptance or speed falls once the context passes it",
        confidence=0.85 if drifted and shorter else 0.8 if lost else 0.6 if (ignored and c.was) or drifted else 0.45,
        severity="warning",
        evidence=(*lost, *proofs(ignored), *proof(*drifted), *acceptance(c.now)),
        effects=("spec.acceptance_collapse", "spec.acceptance_decays_with_context"),
        next_steps=("convert or load the drafter again with its window keys, with a loader that reads them",),
        touches=(TOKENS, STEP),
    )


def _worse_when_long(c: Comparison) -> bool:
    """Whether speed is as before on short contexts and fell on long ones."""
    rows = [(n, d) for d in c.delta("output_tok_s", "tpot_ms") if (n := context_of(d.workload)) is not None]
    longest = max((n for n, _ in rows), default=0.0)
    short = [d for n, d in rows if n < longest / 8]
    return any(d.verdict in ("same", "better") for d in short) and any(
        d.verdict == "worse" for n, d in rows if n > longest / 2
    )


def _windows(s: Snapshot) -> dict[int, Evidence]:
    """Attention windows that the log names, 0 for none."""
    found: dict[int, Evidence] = {}
    for signal in (*s.find("attn.window", "model.window", "unknown"), *_loader_lines(s)):
        m = WINDOW.search(signal.evidence.text)
        if m:
            found.setdefault(int(m["size"]) if m["size"].isdigit() else 0, signal.evidence)
    return found


def _loader_lines(s: Snapshot) -> tuple[Signal, ...]:
    return s.find("engine.loader", "other.*")
