"""Whole diagnoses of captures of real engines: the right cause first, silence where nothing changed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dflash_doctor import collect, compare, diagnose, parse

HERE = Path(__file__).parent / "captures"
ALL = sorted(p.name for p in HERE.iterdir() if p.is_dir())
FAILED = ("v032_fail_drafter_wrong_size", "v032_fail_kv_too_big", "v032_kv_fp8", "sglang0523_fail_spec_dflash_random")
PAIRS = yaml.safe_load((HERE / "pairs.yaml").read_text(encoding="utf-8"))


def snapshot(name):
    return parse.parse(collect.load(str(HERE / name)))


def judged(now, was=None):
    return diagnose.diagnose(compare.compare(now, was), now.name)


@pytest.mark.parametrize("name", [n for n in ALL if n not in FAILED])
def test_a_server_that_served_is_healthy_against_itself(name):
    d = judged(snapshot(name), snapshot(name))
    assert d.verdict == "healthy", [f.summary for f in d.findings]
    assert d.comparison.drifts == ()


@pytest.mark.parametrize("name", FAILED)
def test_a_server_that_failed_is_said_to_have_failed(name):
    d = judged(snapshot(name))
    assert d.verdict == "suspect"
    assert d.findings[0].cause == "server.failing" or "server.failing" in d.findings[0].effects


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: f"{p['good']}->{p['regressed']}")
def test_the_right_cause_comes_first(pair):
    d = judged(snapshot(pair["regressed"]), snapshot(pair["good"]))
    assert d.verdict == "regressed"
    assert d.findings[0].cause in pair["names"], [(f.cause, f.confidence) for f in d.findings]


@pytest.mark.parametrize("pair", [p for p in PAIRS if "factor" in p], ids=lambda p: p["regressed"])
def test_the_slow_down_is_the_measured_one(pair):
    d = judged(snapshot(pair["regressed"]), snapshot(pair["good"]))
    assert d.slowdown.metric == "output_tok_s"
    assert d.slowdown.concurrency == 1
    assert d.slowdown.factor == pytest.approx(pair["factor"], rel=0.02)
