"""Two live servers against each other: each prompt goes A B B A or B A A B, so that what drifts with time hits both.

Neither is restarted meanwhile, so starts are no noise here; prompts are the units. Looks and bounds are those of
deciding.py: it ends as soon as one is faster, or the two are within the margin of each other.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import fmean

import httpx

from dflash_doctor.formats.load import Decision, Request
from dflash_doctor.load import asking, pace
from dflash_doctor.load.battery import BATTERY, Preset, preset, workload
from dflash_doctor.load.client import APIS, Ask
from dflash_doctor.load.ctrl_c import WORD, Stop, until_stopped
from dflash_doctor.load.deciding import Against, decide, due, get_ready
from dflash_doctor.load.heard import understood
from dflash_doctor.load.opening import apis, opened
from dflash_doctor.load.sending import Sender
from dflash_doctor.load.warmup import warm_up
from dflash_doctor.load.watching import keeping_up
from dflash_doctor.model import Refused
from dflash_doctor.stats import REGRESSED

EACH = 2  # requests of a prompt to each side
SAME_START = Against({}, boot_noise=0.0)


@dataclass(frozen=True)
class Ab:
    """What two servers gave for the same prompts. All factors are B over A; below 1 is less."""

    models: tuple[str, str]
    prompts: int
    speed: Decision
    step: Decision | None  # time of a step: below 1 is faster
    tokens: Decision | None  # tokens of a step
    same_text: int  # prompts that all four answers say alike
    notes: tuple[str, ...] = ()

    @property
    def faster(self) -> str | None:
        """A, B, or None when no difference was found."""
        return "A" if self.speed.high < 1 else "B" if self.speed.low > 1 else None


Tell = Callable[[str, int, int], None]


def ab(
    urls: tuple[str, str],
    *,
    preset_name: str = "standard",
    api_key: str | None = None,
    busy_ok: bool = False,
    max_running: int = 0,
    api: str | None = None,
    tell: Tell = lambda *_: None,
) -> Ab:
    """Hold two live servers against each other. Raises NotNow when one is busy or fails, Refused for bad usage."""
    chosen, allowed, tried = preset(preset_name), None if busy_ok else max_running, apis(api)

    async def both(stop: Stop) -> Ab:
        async with opened(urls[0], 2 * chosen.seconds, api_key) as a, opened(urls[1], 2 * chosen.seconds, api_key) as b:
            return await compare((a, b), chosen, allowed=allowed, tried=tried, tell=tell, stop=stop)

    return until_stopped(both)


async def compare(
    clients: tuple[httpx.AsyncClient, httpx.AsyncClient],
    chosen: Preset,
    *,
    allowed: int | None = 0,
    tried: tuple[str, ...] = APIS,
    tell: Tell = lambda *_: None,
    stop: Stop | None = None,
) -> Ab:
    """Within twice the preset's seconds. Raises NotNow when one is busy or fails, Refused when too little was heard."""
    get_ready()
    stop, clock = stop or Stop(), asyncio.get_running_loop().time
    deadline = clock() + 2 * chosen.seconds
    notes: list[str] = []
    prompts = workload(BATTERY).prompts[: chosen.prompts]
    senders, paces, models = [], [], []
    async with AsyncExitStack() as beside:
        me = await beside.enter_async_context(keeping_up())
        for name, client in zip("AB", clients, strict=True):
            served = await asking.model(client)
            if note := asking.busy(await asking.scrape(client), allowed):
                notes.append(f"{name}: {note}")
            ask = Ask("", "", 0, served.model, tried[0])
            sender = Sender(client, ask, stop)
            warm = await warm_up(sender, chosen, prompts, deadline, _warming(tell, name), tried)
            notes += [f"{name}: {note}" for note in warm.notes]
            if not warm.warmup.settled:
                notes.append(f"{name} had not settled after {warm.warmup.requests} warm-up requests")
            senders.append(warm.sender)
            paces.append(warm.pace)
            models.append(served.model)
        tokens = _tokens(chosen, paces, len(prompts), deadline - clock())
        heard: dict[str, list[tuple[Request, ...]]] = {"A": [], "B": []}
        for prompt in prompts:
            slowest = EACH * sum(p.request_s(tokens) for p in paces)
            if stop.asked or (heard["A"] and clock() + slowest > deadline):
                notes.append(f"{WORD if stop.asked else 'the time was up'} after {len(heard['A'])} prompts")
                break
            found: dict[str, list[Request]] = {"A": [], "B": []}
            for side in "ABBA" if secrets.randbelow(2) else "BAAB":
                sender = senders["AB".index(side)]
                found[side].append(understood(await sender.one(prompt, tokens, deadline), clock()))
                stop.something = True
            bad = next((f"{side}: {r.error}" for side in "AB" for r in found[side] if r.status != "ok"), None)
            if bad is not None:
                notes.append(f"{prompt.id} is left out ({bad})")
                continue
            for side in "AB":
                heard[side].append(tuple(found[side]))
            tell("A B B A", len(heard["A"]), len(prompts))
            if due(len(heard["A"]), len(prompts)) and _clear(_speed(heard, len(prompts))):
                break
    if (speed := _speed(heard, len(prompts))) is None:
        raise Refused(f"too few prompts were answered by both to compare them: {'; '.join(notes) or 'no answers'}")
    if doubt := me.doubt():
        notes.append(doubt)
    same = sum(len({r.output_sha256 for r in (*a, *b)}) == 1 for a, b in zip(heard["A"], heard["B"], strict=True))
    planned = len(heard["A"])
    return Ab(
        (models[0], models[1]), planned, speed,
        _factor(heard, planned, lambda r: r.chunk_gap_ms),
        _factor(heard, planned, lambda r: (r.output_tokens or 0) / r.chunks if r.chunks > 1 else None),
        same, tuple(notes),
    )  # fmt: skip


def _warming(tell: Tell, name: str) -> Callable[[str, int, int, float | None], None]:
    return lambda _, done, total, rate: tell(f"warm-up of {name}", done, total)


def _tokens(chosen: Preset, paces: Sequence[pace.Pace], prompts: int, seconds: float) -> int:
    """The longest answers for which all prompts fit."""
    for tokens in chosen.tokens:
        if EACH * prompts * sum(p.request_s(tokens) for p in paces) <= pace.SPARE * seconds:
            return tokens
    return chosen.tokens[-1]


def _speed(heard: dict[str, list[tuple[Request, ...]]], planned: int) -> Decision | None:
    return _factor(heard, planned, lambda r: 1000 / r.tpot_ms if r.tpot_ms else None)


def _factor(
    heard: dict[str, list[tuple[Request, ...]]], planned: int, value: Callable[[Request], float | None]
) -> Decision | None:
    """B over A, paired by prompt; None when fewer than two prompts have it on both sides."""
    pairs = []
    for a, b in zip(heard["A"], heard["B"], strict=True):
        was, now = [v for r in a if (v := value(r))], [v for r in b if (v := value(r))]
        if was and now:
            pairs.append(fmean(map(math.log, now)) - fmean(map(math.log, was)))
    return decide(pairs, planned, SAME_START) if len(pairs) > 1 else None


def _clear(d: Decision | None) -> bool:
    """Whether one is faster, or both are within the margin of each other."""
    if d is None:
        return False
    return d.high < 1 or d.low > 1 or (d.low > 1 - REGRESSED and d.high < 1 / (1 - REGRESSED))
