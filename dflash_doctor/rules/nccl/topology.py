"""GPUs of one parallel group sit far apart.

## What it sees
The worst link between the GPUs of the tensor-parallel group is farther than in the baseline (SYS or NODE instead of
NVLink or PIX), or crosses the sockets although a closer set of cards exists.

## Why it costs you
All-reduces run at the pace of the slowest link, and across sockets they share the CPUs' interconnect.

## How to confirm
`nvidia-smi topo -m` and CUDA_VISIBLE_DEVICES: which pairs does the group use?

## What usually did it
Another order of CUDA_VISIBLE_DEVICES; a scheduler that handed out any free cards; a bridge that was taken off.

## When it is wrong
When the tuned server used the same links. On a board with one root complex PHB is as good as it gets.
"""

from __future__ import annotations

from dflash_doctor.model import Comparison, Evidence, Finding, Snapshot
from dflash_doctor.physics import PREFILL, STEP
from dflash_doctor.rules.own_cards import own_cards
from dflash_doctor.rules.seen import proof

ORDER = ("NV", "PIX", "PXB", "PHB", "NODE", "SYS")  # nearest first (nvidia-smi topo -m legend)


def check(c: Comparison) -> Finding | None:
    now, was = _worst(c.now), _worst(c.was) if c.was else None
    if now is None:
        return None
    farther = was is not None and now > was
    avoidable = c.was is None and now >= ORDER.index("NODE") and _closer_set(c.now)
    if not farther and not avoidable:
        return None
    moved = c.drift("env.CUDA_VISIBLE_DEVICES", "env.NVIDIA_VISIBLE_DEVICES", "parallel.gpu_select")
    return Finding(
        cause="",
        summary=f"the GPUs of one group are linked by {ORDER[now]} at worst"
        + (f", {ORDER[was]} when tuned" if farther and was is not None else "; a closer set of cards exists"),
        confidence=0.8 if farther else 0.55,
        severity="warning",
        evidence=(*_lines(c.now), *proof(*moved)),
        next_steps=("choose cards of one NVLink island or socket with CUDA_VISIBLE_DEVICES (nvidia-smi topo -m)",),
        touches=(STEP, PREFILL),
    )


def _group(s: Snapshot) -> tuple[int, ...]:
    """The engine's cards; none when nobody can say which they are."""
    return own_cards(s) or ()


def _place(link: str) -> int | None:
    return next((i for i, name in enumerate(ORDER) if link.upper().startswith(name)), None)


def _worst(s: Snapshot) -> int | None:
    mine = _group(s)
    places = [
        p for (a, b), link in s.links.items() if a in mine and b in mine and a != b and (p := _place(link)) is not None
    ]
    return max(places) if len(mine) > 1 and places else None


def _closer_set(s: Snapshot) -> bool:
    """Whether some other set of as many cards is joined more closely (each with each)."""
    n = len(_group(s))
    cards = sorted({i for pair in s.links for i in pair})
    worst = _worst(s) or 0
    for first in cards:
        near = [
            x
            for x in cards
            if x == first or (_place(s.links.get((first, x), s.links.get((x, first), "SYS"))) or 0) < worst
        ]
        if len(near) >= n:
            return True
    return False


def _lines(s: Snapshot) -> tuple[Evidence, ...]:
    mine = _group(s)
    pairs = ", ".join(
        f"GPU{a}-GPU{b} {link}" for (a, b), link in sorted(s.links.items()) if a in mine and b in mine and a < b
    )
    return (Evidence("topology.txt", pairs),) if pairs else ()
