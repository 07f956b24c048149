"""Two servers against each other over a clock that jumps: which is faster, by how much, and when that is known."""

from __future__ import annotations

import httpx
import pytest

from dflash_doctor.cli.comparing import lines
from dflash_doctor.load import preset
from dflash_doctor.load.ab import compare
from dflash_doctor.load.asking import NotNow
from dflash_doctor.model import Refused
from tests.load_server import Server
from tests.still_clock import run


def against_each_other(a, b, name="standard", **how):
    async def both():
        async with (
            httpx.AsyncClient(base_url="http://a:8000", transport=a) as one,
            httpx.AsyncClient(base_url="http://b:8000", transport=b) as other,
        ):
            return await compare((one, other), preset(name), **how)

    return run(both())


def test_the_faster_one_is_named_with_what_made_it_so():
    found = against_each_other(Server(step_s=0.02, per_step=2), Server(step_s=0.02, per_step=3))
    assert found.faster == "B" and found.speed.factor == pytest.approx(1.5, rel=0.02)
    assert found.step.factor == pytest.approx(1) and found.tokens.factor == pytest.approx(1.5, rel=0.02)
    said = lines(found, "gpu7", "gpu8")
    assert said[0].startswith("gpu8 is faster: 1.5") and "times the decode speed of gpu7" in said[0]
    assert "  step time of gpu8: 1.00 (1.00 to 1.00) of that of gpu7" in said


def test_a_slower_step_is_told_as_that():
    found = against_each_other(Server(step_s=0.02), Server(step_s=0.025))
    assert found.faster == "A" and lines(found, "x", "y")[0].startswith("x is faster: 1.25 times the decode speed of y")
    assert found.step.factor == pytest.approx(1.25)


def test_equal_servers_are_known_to_be_after_eight_prompts_of_four_requests():
    a, b = Server(), Server()
    found = against_each_other(a, b)
    assert (found.faster, found.prompts, found.same_text, found.notes) == (None, 8, 8, ())
    assert lines(found, "x", "y")[0].startswith("No difference was found: y gives 1.00 (1.00 to 1.00)")
    assert len(a.asked) == len(b.asked) == 8 + 2 * 8 and a.left == b.left == 0


def test_each_prompt_goes_to_both_in_turn():
    asked = []
    sides = {"A": Server(), "B": Server()}
    for side, server in sides.items():
        server.refuses = lambda body, path, n, side=side: asked.append(side)
    against_each_other(*sides.values())
    measured = "".join(asked[16:])
    fours = {measured[i : i + 4] for i in range(0, len(measured), 4)}
    assert fours <= {"ABBA", "BAAB"} and len(measured) == 32


def test_a_busy_or_broken_side_is_named():
    with pytest.raises(NotNow, match="3 other requests are running"):
        against_each_other(Server(), Server(foreign=lambda now: 3))
    breaks = Server(refuses=lambda body, path, n: (503, "engine dead") if n > 8 else None)
    with pytest.raises(Refused, match=r"too few prompts .* code-1 is left out \(B: HTTP 503"):
        against_each_other(Server(), breaks)


def test_slow_servers_end_within_twice_the_presets_time():
    found = against_each_other(Server(ttft_s=1.0, step_s=0.4), Server(ttft_s=1.0, step_s=0.5), "quick")
    assert found.faster == "A" and found.prompts <= 8
