"""The memory fraction, which the two engines mean differently, from the KV tokens that are wanted.

vLLM's share is the whole budget: weights, activations, KV and, from 0.20, graphs. SGLang's is weights and KV only; what
is left runs activations and graphs. So equal figures give other pools. What both want is room for so many tokens:

    SGLang    fraction = (weights + tokens x bytes per token) / memory
    vLLM      fraction = its last one + (tokens - its last tokens) x bytes per token / memory, when it has run before
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dflash_doctor.model import Snapshot
from dflash_doctor.port.move import Move

GIB = 2**30
APART = 0.05  # between the two meanings where nothing is known: the middle of what both engines' defaults leave over
WORKING = 3 * GIB  # activations, graphs and communication of vLLM where no log says; a guess, marked as such
MOST = 0.95  # vLLM with more than this runs out of memory while it captures graphs
CLOSE = 0.05  # pools within this share hold the same: profiling differs between boots
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,6})?$")


@dataclass(frozen=True)
class Pool:
    """What a server's own lines say of its memory, per GPU."""

    tokens: int | None = None  # KV tokens it holds
    per_token: float | None = None  # bytes of KV that one token takes on one GPU
    weights: float | None = None
    total: float | None = None


@dataclass(frozen=True)
class Fraction:
    """A fraction and where it comes from."""

    value: float
    why: str
    sure: bool


def pool(s: Snapshot) -> Pool:
    """The memory of one side."""
    tokens = _tokens(s)
    return Pool(tokens, _per_token(s, tokens), _weights(s), _total(s))


def fraction(m: Move) -> Fraction | None:
    """The fraction that gives the other engine as many KV tokens; None when the tuned side says nothing of its own."""
    was, now = pool(m.tuned), pool(m.against) if m.against is not None else Pool()
    asked = m.value("mem.fraction")
    total = now.total or (m.card.memory[0] * GIB / 1e9 if m.card is not None else None) or was.total
    if was.tokens is not None and total is not None:
        found = _from_tokens(m, was, now, was.tokens, total)
        if found is not None:
            return found
    if not isinstance(asked, float):
        return None
    if m.same:
        return Fraction(asked, "", True)
    moved = asked + APART if m.engine == "vllm" else asked - APART
    value = round(min(max(moved, 0.05), MOST if m.engine == "vllm" else moved), 2)
    return Fraction(value, f"{_meaning(m)}; no KV size is known, so by rule of thumb", False)


def _from_tokens(m: Move, was: Pool, now: Pool, tokens: int, total: float) -> Fraction | None:
    ran = m.against.value("mem.fraction") if m.against is not None and m.against.engine == m.engine else None
    if now.tokens is not None and isinstance(ran, float) and m.engine == "vllm":
        if abs(now.tokens - tokens) <= CLOSE * tokens or now.tokens > tokens:
            return Fraction(ran, f"{now.tokens:,} KV tokens fit already, {tokens:,} are wanted", True)
        if now.per_token is not None:
            value = round(ran + (tokens - now.tokens) * now.per_token / total, 2)
            why = f"for {tokens:,} KV tokens; at {ran:g} there were {now.tokens:,}"
            return _bounded(value, why, True)
    if was.weights is None or was.per_token is None:
        return None
    needed = was.weights + tokens * was.per_token
    if m.engine == "sglang":
        return _bounded(round(needed / total, 2), f"weights and {tokens:,} KV tokens; {_meaning(m)}", True)
    exact = f"--kv-cache-memory-bytes {int(tokens * was.per_token)} says it exactly"
    why = f"weights, {tokens:,} KV tokens and {WORKING // GIB} GiB to work in; {exact}"
    return _bounded(round((needed + WORKING) / total, 2), why, False)


def _bounded(value: float, why: str, sure: bool) -> Fraction:
    if value > MOST:
        return Fraction(MOST, f"{why}: {value:g} would be needed, more than is safe", False)
    return Fraction(max(value, 0.05), why, sure)


def _meaning(m: Move) -> str:
    if m.engine == "vllm":
        return "vLLM counts activations and graphs in, SGLang does not"
    return "SGLang leaves activations and graphs out, vLLM counts them in"


# -- what the lines say -----------------------------------------------------------------------------------------------


def _tokens(s: Snapshot) -> int | None:
    held = [x.value for x in s.samples if x.metric == "kv_tokens" and x.value > 0]
    lines = (_number(x.fields.get("tokens")) for x in s.find("kv.size"))
    return int(held[-1]) if held else next((int(t) for t in lines if t), None)


def _per_token(s: Snapshot, tokens: int | None) -> float | None:
    """vLLM: memory for KV over tokens. SGLang: K and V of every pool of that size, the drafter's too."""
    if not tokens:
        return None
    available = next((g for x in s.find("mem.kv_available") if (g := _number(x.fields.get("gib")))), None)
    if available is not None:
        return available * GIB / tokens
    pools = [x.fields for x in s.find("kv.size") if _number(x.fields.get("tokens")) == tokens]
    sizes = [sum(g for name in ("k", "v", "kv") if (g := _number(f.get(name)))) for f in pools]
    return sum(sizes) * GIB / tokens if sum(sizes) else None


def _weights(s: Snapshot) -> float | None:
    # SGLang loads the target and the drafter apart, vLLM gives both in one line
    loaded = [g for x in s.find("mem.weights") if (g := _number(x.fields.get("mem")))]
    both = [g for x in s.find("mem.model_load") if (g := _number(x.fields.get("gib")))]
    found = sum(loaded) or (both[-1] if both else 0.0)
    return found * GIB if found else None


def _total(s: Snapshot) -> float | None:
    measured = [v for v in s.gpu_numbers("memory.total", None).values() if v > 0]
    return min(measured) * 2**20 if measured else None


def _number(text: str | None) -> float | None:
    plain = (text or "").replace(",", "")
    return float(plain) if _NUMBER.match(plain) else None
