"""A few hosts at a time, each with its deadline; siblings are asked before a release is blamed."""

from __future__ import annotations

import threading

import pytest

from dflash_doctor.fleet import Late, Pool, beside
from dflash_doctor.formats.check import Checked, worst
from dflash_doctor.formats.report import Engine, Finding, ReportFile, Tool


def test_each_host_is_looked_at_once_and_never_more_than_allowed_at_a_time():
    lock, now, most = threading.Lock(), 0, 0
    both = threading.Barrier(2)

    def look(job, visit):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        both.wait(5)  # two are in hand at once, else this breaks
        with lock:
            now -= 1
        return job * 10

    found = list(Pool(range(8), look, str, at_once=2, deadline_s=60))
    assert sorted(r for _, r, _ in found) == [i * 10 for i in range(8)]
    assert most == 2


def test_a_host_that_hangs_costs_one_line_and_its_session_is_closed():
    closed = threading.Event()

    class Session:
        def close(self):
            closed.set()

    def look(job, visit):
        if job == "hangs":
            visit.phase = "looking at hangs"
            visit.hold(Session())
            closed.wait(30)
        return job

    found = {job: result for job, result, _ in Pool(["hangs", "a", "b"], look, str, at_once=2, deadline_s=0.3)}
    assert (found["a"], found["b"]) == ("a", "b")
    assert isinstance(found["hangs"], Late) and found["hangs"].phase == "looking at hangs"
    assert closed.wait(5)


def test_a_session_that_comes_to_be_after_the_deadline_is_closed_too():
    late, closed = threading.Event(), threading.Event()

    class Session:
        def close(self):
            closed.set()

    def look(job, visit):
        late.wait(30)
        visit.hold(Session())

    ((_, result, _),) = list(Pool(["slow"], look, str, at_once=1, deadline_s=0.1))
    late.set()
    assert isinstance(result, Late)
    assert closed.wait(5)


def test_what_a_look_raises_is_its_result_and_the_others_go_on():
    def look(job, visit):
        if job == 1:
            raise ValueError("odd")
        return job

    found = {job: result for job, result, _ in Pool(range(3), look, str, at_once=1, deadline_s=60)}
    assert (found[0], found[2]) == (0, 2)
    assert str(found[1]) == "odd"


@pytest.mark.parametrize(("statuses", "one"), [([0, 2, 1], 1), ([0, 2, 0], 2), ([0, 0], 0), ([], 0)])
def test_one_wins_over_two_and_two_over_none(statuses, one):
    assert worst(statuses) == one


def host(name, verdict, *causes, version="0.33.0", groups=("prod",)):
    findings = [
        Finding(rank=1, cause=c, severity="warning", confidence=0.8, summary=c, impact=None, evidence=[], against=[],
                effects=[], next_steps=[])
        for c in causes
    ]  # fmt: skip
    report = ReportFile(
        tool=Tool(version="0"), target=name, taken_at=None, engine=Engine(name="vllm", version=version), baseline=None,
        verdict=verdict, slowdown=None, findings=findings, deltas=[], drifts=[], gaps=[],
    )  # fmt: skip
    return Checked(name=name, groups=list(groups), verdict=verdict, status=0, says="", report=report)


BLAMED = "version.engine_regression"


def test_a_release_that_runs_as_tuned_on_a_sibling_is_not_blamed_alone():
    ill = host("gpu1", "regressed", BLAMED)
    others = [ill, host("gpu2", "healthy"), host("gpu3", "healthy", version="0.32.0")]
    assert beside(ill, others) == "gpu2 runs the same release as tuned: look at this host first"


def test_siblings_that_are_slower_too_speak_against_the_release():
    ill = host("gpu1", "regressed", BLAMED)
    assert "gpu2, gpu3 of the same release are slower too" in beside(
        ill, [ill, host("gpu2", "regressed"), host("gpu3", "unconfirmed")]
    )


def test_other_groups_and_other_causes_are_no_siblings():
    ill = host("gpu1", "regressed", BLAMED)
    assert beside(ill, [ill, host("gpu2", "healthy", groups=("lab",))]) == ""
    throttled = host("gpu1", "regressed", "gpu.clock_throttle")
    assert beside(throttled, [throttled, host("gpu2", "healthy")]) == ""
