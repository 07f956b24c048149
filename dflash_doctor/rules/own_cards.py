"""Which of a host's GPUs are the engine's, by the driver's numbers: what rules of the gpu, nccl and parallelism ask.

    CUDA_VISIBLE_DEVICES=2,3                 CUDA's numbers, not the driver's
    CUDA_VISIBLE_DEVICES=GPU-8f1c,GPU-77a0   ids, or their beginnings
    NVIDIA_VISIBLE_DEVICES=1,2               what a container is given (docker run --gpus device=1,2)

The driver numbers cards by bus; CUDA puts the fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID, so among unequal cards
its numbers mean nothing to us. A process that holds memory on a card is the best witness of all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dflash_doctor.model import Snapshot

ENGINE = re.compile(r"vllm|sglang|sgl[-_]|ray::", re.I)  # titles of the engines' processes


def own_cards(s: Snapshot) -> tuple[int, ...] | None:
    """Indices of the cards that the engine uses, in the order of its ranks; None when nobody can say."""
    ranks = _whole(s.value("parallel.tp"), 1) * _whole(s.value("parallel.pp"), 1)
    cards = {r.index: r.values for r in s.readings}
    held = _held(s)
    if len(held) >= ranks:
        return held
    chosen = _listed(s.value("env.CUDA_VISIBLE_DEVICES") or s.value("parallel.device_ids"))
    order = _cuda_order(s, cards)
    given = _given(s, cards)
    if given is not None:
        order = given
        if not chosen and len(given) == ranks:
            return given
    if not chosen:
        first, step = _whole(s.value("parallel.base_gpu_id"), 0), _whole(s.value("parallel.gpu_id_step"), 1)
        chosen = [str(first + step * i) for i in range(ranks)]
        if len(cards) == ranks:
            return tuple(sorted(cards))  # all there are, in whatever order
    found = tuple(_card(x, order, cards) for x in chosen[:ranks])
    known = tuple(i for i in found if i is not None)
    return known if len(known) == len(found) else None


def _listed(value: Any) -> list[str]:
    return [x.strip() for x in str(value or "").split(",") if x.strip()]


def _given(s: Snapshot, cards: Mapping[int, Mapping[str, Any]]) -> tuple[int, ...] | None:
    """The driver's cards that a container was given, which CUDA numbers from 0 inside; None when it has them all."""
    words = _listed(s.value("env.NVIDIA_VISIBLE_DEVICES"))
    if not words or words == ["all"]:
        return None
    found = tuple(int(x) if x.isdigit() and len(x) < 5 else _card(x, None, cards) for x in words)
    seen = [i for i in found if i is not None and (not cards or i in cards)]
    return tuple(seen) if len(seen) == len(words) else None


def _card(word: str, order: Sequence[int] | None, cards: Mapping[int, Mapping[str, Any]]) -> int | None:
    if word.isdigit() and len(word) < 5:
        if not cards:
            return int(word)
        return order[int(word)] if order is not None and int(word) < len(order) else None
    same = [i for i, v in cards.items() if isinstance(v.get("uuid"), str) and v["uuid"].startswith(word)]
    return same[0] if len(same) == 1 else None


def _cuda_order(s: Snapshot, cards: Mapping[int, Mapping[str, Any]]) -> tuple[int, ...] | None:
    """The driver's index of CUDA's card 0, 1, …; None when CUDA's order is not known."""
    by_bus = s.value("env.CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    names = {str(v["name"]) for v in cards.values() if isinstance(v.get("name"), str)}
    if not by_bus and len(names) > 1:
        return None
    # equal cards stand in the order of the bus either way; without bus ids the driver's numbers follow it
    bus = {i: v.get("pci.bus_id") for i, v in cards.items()}
    if all(isinstance(b, str) for b in bus.values()):
        return tuple(sorted(bus, key=lambda i: str(bus[i]).lower().rjust(20, "0")))
    return tuple(sorted(cards))


def _held(s: Snapshot) -> tuple[int, ...]:
    """Cards on which a process of the engine holds memory."""
    rows = s.host.get("processes")
    pids = {p.get("pid") for p in rows if isinstance(p, Mapping)} if isinstance(rows, (list, tuple)) else set()
    found = set()
    for r in s.readings:
        processes = r.values.get("processes")
        for p in processes if isinstance(processes, (list, tuple)) else ():
            if isinstance(p, Mapping) and (p.get("pid") in pids or ENGINE.search(str(p.get("name", "")))):
                found.add(r.index)
    return tuple(sorted(found))


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default
