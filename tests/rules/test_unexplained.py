"""A loss that no cause explains: what could be behind it, what differs, and the fewest restarts that find out."""

from __future__ import annotations

import pytest

from dflash_doctor.diagnose import diagnose
from dflash_doctor.model import Lead
from dflash_doctor.physics import STEP, TOKENS
from dflash_doctor.rules.break_even import break_even
from dflash_doctor.rules.leads import bisection, leads
from dflash_doctor.rules.suspects import suspects
from tests.rules.build import card, held, snapshot, speed, steps


def told(c, touch):
    return {s.cause: (s.speaks, s.words) for s in suspects(c, touch)}


def test_what_differs_speaks_for_a_root_what_is_equal_against_it_and_what_is_unknown_leaves_it_open():
    alike = {"cudagraph.mode": "full", "parallel.tp": 2}
    now = snapshot(settings=alike | {"attention.backend": "triton"}, readings=[card(clocks_sm=1200)])
    was = snapshot(settings=alike | {"attention.backend": "flash_attn"}, readings=[card(clocks_sm=1800)])
    said = told(held(now, was), STEP)
    assert said["attention.backend_changed"] == (True, "attention.backend: flash_attn -> triton")
    assert said["gpu.clock_throttle"] == (True, "clocks.sm 1800 -> 1200")
    assert said["cudagraph.disabled"] == (False, "cudagraph.mode full as before")
    assert said["moe.backend_changed"] == (None, "moe.backend")
    assert [s.speaks for s in suspects(held(now, was), STEP)][:2] == [True, True]


def test_a_single_card_sends_nothing_to_others():
    one = snapshot(settings={"parallel.tp": 1})
    assert not any(cause.startswith("nccl.") for cause in told(held(one, one), STEP))


def test_a_first_position_that_is_accepted_speaks_against_a_wiring_fault():
    drafts = {"spec.method": "dflash", "spec.draft_model": "/models/d"}
    now = snapshot(settings=drafts, intervals=[steps(accept_length=1.9, per_position=(0.6, 0.3))])
    was = snapshot(settings=drafts, intervals=[steps(accept_length=2.9, per_position=(0.9, 0.7))])
    said = told(held(now, was), TOKENS)
    assert said["spec.drafter_target_mismatch"][0] is False
    assert said["spec.drafter_undertrained"] == (False, "the same drafter as before")
    assert said["spec.acceptance_decays_with_context"][0] is None


def test_a_slowdown_without_a_cause_lists_what_was_looked_at_and_what_differs():
    settings = {"cudagraph.mode": "full", "parallel.tp": 1, "model.path": "/m"}
    now = snapshot(settings=settings | {"sched.policy": "lpm"}, samples=[speed(50.0)])
    was = snapshot(settings=settings | {"sched.policy": "fcfs"}, samples=[speed(80.0)])
    d = diagnose(held(now, was), "x")
    assert d.verdict == "regressed" and not d.findings
    assert [u.part for u in d.unexplained] == [STEP]
    assert [x.what for x in d.leads] == ["sched.policy: fcfs -> lpm"]
    assert d.bisection is None, "one difference needs no plan"


def test_a_loss_with_a_cause_is_explained():
    now = snapshot(settings={"cudagraph.mode": "none"}, samples=[speed(50.0)])
    was = snapshot(settings={"cudagraph.mode": "full"}, samples=[speed(80.0)])
    d = diagnose(held(now, was), "x")
    assert d.findings[0].cause == "cudagraph.disabled" and d.unexplained == () and d.leads == ()


def test_leads_are_what_no_finding_shows_the_likeliest_first():
    now = snapshot(version="0.28.0", settings={"sched.policy": "lpm", "cudagraph.mode": "none"}, samples=[speed(50.0)])
    was = snapshot(version="0.27.0", settings={"sched.policy": "fcfs", "cudagraph.mode": "full"}, samples=[speed(80.0)])
    c = held(now, was)
    assert [x.what.split(":")[0] for x in leads(c, [])] == ["cudagraph.mode", "engine.version", "sched.policy"]


@pytest.mark.parametrize(
    ("weights", "first", "restarts"),
    [
        ((0.5, 0.5), 1, 1.0),
        ((0.8, 0.1, 0.1), 1, 1.2),
        ((0.25, 0.25, 0.25, 0.25), 2, 2.0),  # the entropy of four equal chances
    ],
)
def test_halving_the_weight_takes_the_restarts_of_a_huffman_code(weights, first, restarts):
    plan = bisection([Lead(f"k{i}: a -> b", w) for i, w in enumerate(weights)])
    assert len(plan.first) == first and plan.restarts == pytest.approx(restarts)


def drafts(method, length, curve=(), depth=None, tok_s=60.0, version="0.27.0"):
    settings = {"spec.method": method} | ({"spec.depth": depth} if depth else {})
    rows = [steps(1, tok_s, accept_length=length, per_position=curve)] if length else []
    return snapshot(version=version, settings=settings, intervals=rows, samples=[speed(tok_s)])


def test_what_a_drafted_step_costs_is_measured_where_one_side_did_not_draft():
    meter = break_even(held(drafts("eagle3", 2.4, (0.7, 0.45, 0.25), 3, 90.0), drafts("none", None, tok_s=60.0)))
    # 1.5 times as fast with 2.4 tokens per step: a step takes 1.6 times as long
    assert meter.measured and meter.cost == pytest.approx(1.6) and meter.kept == pytest.approx(2.4)


def test_without_such_a_side_the_cost_is_a_lower_bound():
    block = break_even(held(drafts("dflash", 1.02, (0.02,), 15)))
    assert not block.measured and block.cost == pytest.approx(1.04) and block.kept < block.cost
    serial = break_even(held(drafts("eagle", 1.02, (0.02,), 5)))
    assert serial.cost == pytest.approx(1.2)


def test_a_better_length_is_told_from_acceptance_by_position():
    meter = break_even(
        held(drafts("eagle", 2.45, (0.64, 0.38, 0.21, 0.11, 0.055, 0.027, 0.013, 0.006, 0.003, 0.001), 10))
    )
    assert meter.best_depth == 4 and meter.best_gain == pytest.approx(1.16, abs=0.02)
    assert break_even(held(drafts("eagle", 2.95, (0.8, 0.65, 0.5), 3))).best_depth is None


def test_nothing_drafted_needs_no_meter():
    assert break_even(held(drafts("none", None))) is None
