"""Which windows show serving as it is: not idle, not warming up or draining, no pause inside, not mostly prefill.

A window at the edge of a load (the first after a pause, a change of the load) is believed when a neighbour at the same
load says the same; on its own it may be half empty.
"""

from __future__ import annotations

from itertools import pairwise

from dflash_doctor.parsers.logs.windows import Window, by_engine

SAME_SPEED = 0.10  # two windows of one steady load differ by less: 5 % either way is common in ten-second windows
SAME_LOAD = 0.70  # of the smaller to the larger number of running requests between two windows of one load
GAP = 1.6  # of the usual distance: a missing window was an idle one, which vLLM does not print
USUAL_S = 10.0  # VLLM_LOG_STATS_INTERVAL


def mark_vllm(windows: list[Window], started: bool) -> None:
    """Notes what keeps each window from being steady. `started`: the log shows the start before the first of them."""
    for group in by_engine([w for w in windows if w.interval.generation_tok_s is not None]):
        usual = _usual(group)
        before: Window | None = None
        for w in group:
            _mark_vllm(w, before, usual, started)
            before = w
        _believe(group)


def _mark_vllm(w: Window, before: Window | None, usual: float, started: bool) -> None:
    i = w.interval
    speed, prompt, running = i.generation_tok_s or 0.0, i.prompt_tok_s or 0.0, i.running or 0.0
    if not running:
        w.trouble.add("drain" if speed or prompt else "idle")
        return
    if speed == 0 or prompt > speed:
        w.trouble.add("mixed")
    if before is None:
        if started:
            w.trouble.add("edge")
    elif before.trouble & {"idle", "drain"} or _paused(before, w, usual) or not _same_load(before, w):
        w.trouble.add("edge")


def mark_sglang(windows: list[Window], started: bool) -> None:
    """The same for SGLang's batch lines; prefill lines count only where one follows another without a pause."""
    for group in by_engine([w for w in windows if w.interval.kind == "decode"]):
        before: Window | None = None
        for w in group:
            _mark_decode(w, before, started)
            before = w
        _believe(group)
    for group in by_engine(windows):
        for before_it, w in zip([None, *group], group, strict=False):
            if w.interval.kind == "prefill" and not _goes_on(before_it, w):
                w.trouble.add("edge")


def _mark_decode(w: Window, before: Window | None, started: bool) -> None:
    i = w.interval
    if not i.running:
        w.trouble.add("drain" if i.generation_tok_s else "idle")
        return
    if before is None:
        if started:
            w.trouble.add("edge")
    elif not _same_load(before, w) or _long_after(before, w):
        w.trouble.add("edge")
    if w.prefilled and w.prefilled > _decoded(w, before):
        w.trouble.add("mixed")


PAUSE_S = 60.0  # forty steps take less; what is longer was idle, or the lines between were left out


def _long_after(before: Window, w: Window) -> bool:
    then, now = before.interval.time, w.interval.time
    return then is not None and now is not None and now - then > PAUSE_S


def _decoded(w: Window, before: Window | None) -> float:
    """Tokens decoded in the window: its speed over the time since the line before."""
    now, then = w.interval.time, before.interval.time if before is not None else None
    if now is None or then is None or now <= then:
        return 40.0 * (w.interval.running or 1.0) * (w.interval.accept_length or 1.0)  # decode_log_interval steps
    return (w.interval.generation_tok_s or 0.0) * (now - then)


CHUNK_S = 30.0  # one chunk of a prefill takes less, or the pause is not a prefill
FULL_CHUNK = 512  # tokens; smaller batches are dominated by launch cost and say nothing about prefill speed


def _goes_on(before: Window | None, w: Window) -> bool:
    """A prefill line right after another of the same stretch: its speed is that of prefilling alone."""
    if before is None or before.interval.kind != "prefill" or w.prefilled < FULL_CHUNK or before.prefilled < FULL_CHUNK:
        return False
    then, now = before.interval.time, w.interval.time
    return then is None or now is None or now - then <= CHUNK_S


# -- neighbours -------------------------------------------------------------------------------------------------------


def _believe(group: list[Window]) -> None:
    for at, w in enumerate(group):
        if "edge" in w.trouble and w.believable:
            near = [g for g in group[max(0, at - 1) : at + 2] if g is not w]
            if any(_says_the_same(w, n) for n in near):
                w.trouble.discard("edge")


def _says_the_same(w: Window, other: Window) -> bool:
    if not (other.believable and _same_load(w, other)):
        return False
    a, b = w.interval.generation_tok_s or 0.0, other.interval.generation_tok_s or 0.0
    return abs(a - b) <= SAME_SPEED * max(a, b)


def _same_load(a: Window, b: Window) -> bool:
    x, y = a.interval.running or 0.0, b.interval.running or 0.0
    return min(x, y) >= SAME_LOAD * max(x, y) > 0


def _usual(group: list[Window]) -> float:
    """The usual distance of two windows."""
    times = [w.interval.time for w in group if w.interval.time is not None]
    # the shortest: distances only grow, by windows that were idle and not printed
    return min((b - a for a, b in pairwise(times) if b - a >= 1), default=USUAL_S)


def _paused(before: Window, w: Window, usual: float) -> bool:
    then, now = before.interval.time, w.interval.time
    return then is not None and now is not None and not 0 <= now - then <= GAP * usual
