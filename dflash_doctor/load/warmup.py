"""The warm-up: short requests one by one until the step time settles. It also shows which requests a server takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from dflash_doctor.formats.load import Request, Warmup
from dflash_doctor.load import pace
from dflash_doctor.load.asking import NotNow
from dflash_doctor.load.battery import Preset, Prompt
from dflash_doctor.load.client import APIS, CHAT, MESSAGES, Ask
from dflash_doctor.load.heard import understood
from dflash_doctor.load.sending import Sender

SHARE = 0.25  # of the seconds
SETTLED = 0.02  # two successive step-time medians agree within this
LATEST = 3  # requests behind one such median

Tell = Callable[[str, int, int, float | None], None]


@dataclass(frozen=True)
class Warm:
    """A server that is warm, as far as it got."""

    sender: Sender  # asks in the form that the server takes
    warmup: Warmup
    pace: pace.Pace
    notes: tuple[str, ...] = ()


async def warm_up(
    sender: Sender, preset: Preset, prompts: tuple[Prompt, ...], deadline: float, tell: Tell,
    apis: tuple[str, ...] = APIS,
) -> Warm:  # fmt: skip
    """Raises NotNow when the server does not answer the first requests in any of the APIs."""
    clock = asyncio.get_running_loop().time
    began = clock()
    until = began + SHARE * preset.seconds
    done: list[Request] = []
    notes: tuple[str, ...] = ()
    steps: list[float] = []
    while _cold(len(done), steps, preset) and (clock() < until or not done):
        prompt = prompts[len(done) % len(prompts)]
        r = understood(await sender.one(prompt, preset.warmup_tokens, deadline), began)
        if r.status != "ok" and not done:
            forms = _forms(sender.ask, apis, r.error or "")
            sender, r, notes = await _in_another_form(sender, forms, prompt, preset.warmup_tokens, r, deadline)
        if r.status != "ok":
            raise NotNow(f"the first requests fail, so nothing can be measured: {r.error}")
        done.append(r)
        steps = [_step_ms(r) for r in done if r.chunks > 1]
        tell("warm-up", len(done), max(len(done), preset.warmups), 1000 / r.tpot_ms if r.tpot_ms else None)
    return Warm(sender, Warmup(requests=len(done), settled=settled(steps)), pace.of(done), notes)


def _cold(done: int, steps: Sequence[float], preset: Preset) -> bool:
    return done < preset.warmups or (done < preset.most_warmups and not settled(steps))


def _step_ms(r: Request) -> float:
    # the mean: of the five gaps that a short answer may have, the median is a matter of luck
    return ((r.e2e_ms or 0.0) - (r.ttft_ms or 0.0)) / (r.chunks - 1)


def settled(steps: Sequence[float]) -> bool:
    """Whether the latest step times are those of just before; a short request has few steps: one is no proof."""
    n = min(LATEST, len(steps) // 2)
    was, now = median(steps[-2 * n : -n] or [0.0]), median(steps[-n:] or [0.0])
    return n > 0 and abs(now - was) <= SETTLED * was


async def _in_another_form(
    sender: Sender, forms: Sequence[Ask], prompt: Prompt, tokens: int, refused: Request, deadline: float
) -> tuple[Sender, Request, tuple[str, ...]]:
    """A server without ignore_eos or without a chat template gets the request in the form that it takes."""
    began = asyncio.get_running_loop().time()
    for form in forms:
        other = replace(sender, ask=form)
        r = understood(await other.one(prompt, tokens, deadline), began)
        if r.status == "ok":
            return other, r, tuple(_differences(form, refused))
    return sender, refused, ()


def _forms(ask: Ask, apis: tuple[str, ...], error: str) -> Sequence[Ask]:
    """What else to try: nothing when the server did not answer, or wants a key."""
    if not error.startswith(("HTTP", "the server reports an error")) or error.startswith(("HTTP 401", "HTTP 403")):
        return ()
    missing = error.startswith(("HTTP 404", "HTTP 405"))
    there = [api for api in apis if not (missing and api == ask.api)]
    forms = [replace(ask, api=api, ignore_eos=eos) for api in there for eos in (True, False)]
    return [f for f in forms if f != ask and (f.ignore_eos or f.api != MESSAGES)]


def _differences(form: Ask, refused: Request) -> list[str]:
    words = []
    if form.api == MESSAGES:
        words.append(f"requests go to {form.api}: answers end when they end ({refused.error})")
    elif form.api != CHAT:
        words.append(f"requests go to {form.api}, without a chat template ({refused.error})")
    if not form.ignore_eos:
        words.append("the server does not take ignore_eos: answers end when they end")
    return words
