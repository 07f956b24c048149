"""Each known issue speaks of the host that it was reported of, and not of the nearest other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from dflash_doctor.causes import causes
from dflash_doctor.known_issues import fits, known_issues, speaks_of, within
from dflash_doctor.model import Capture
from dflash_doctor.parse import parse

HOSTS = yaml.safe_load((Path(__file__).parent / "known_issues.yaml").read_text(encoding="utf-8"))
ISSUES = known_issues()


def snapshot(host):
    engine = "sglang" if "sglang" in host["run"] else "vllm"
    packages = {engine: host["engine"], **host.get("packages", {})}
    files = {"cmdline": host["run"], "packages.txt": "\n".join(f"{k}=={v}" for k, v in packages.items())}
    files |= {name: host[key] for key, name in TEXTS.items() if key in host}
    if "accept_length" in host:
        files["load.yaml"] = f"- {{workload: chat, concurrency: 1, accept_length: {host['accept_length']}}}"
    if "card" in host:
        card = {"index": 0, "name": host["card"], "clocks.sm": host.get("clock", 1800)}
        samples = [{"t": 0, "load": True, "gpus": [card]}]
        files["gpu.json"] = json.dumps({"driver_version": host.get("driver", "575.57.08"), "samples": samples})
    return parse(Capture("host", {name: text.encode() for name, text in files.items()}))


TEXTS = {"environ": "environ", "log": "server.log", "dmesg": "dmesg.txt"}


@pytest.mark.parametrize("issue", ISSUES, ids=lambda i: i.id)
def test_it_speaks_of_its_host_and_not_of_the_nearest_other(issue):
    host = HOSTS[issue.id]
    assert speaks_of(issue, snapshot(host))
    assert not speaks_of(issue, snapshot({**host, **host["not"]}))


def test_there_are_enough_each_with_a_name_of_its_own():
    assert len(ISSUES) >= 60
    assert len({i.id for i in ISSUES}) == len(ISSUES)
    assert {i.id for i in ISSUES} == set(HOSTS) - {"_"}


def test_each_speaks_for_a_cause_of_the_vocabulary_and_says_where_it_shows():
    for issue in ISSUES:
        assert issue.cause in causes()
        assert issue.versions or issue.when.model_dump(exclude_defaults=True), issue.id


@pytest.mark.parametrize(
    ("releases", "inside", "outside"),
    [
        ("0.20.0..0.21.0", "0.20.2", "0.21.1"),
        ("2.7..2.7", "2.7.1+cu128", "2.8.0"),
        ("..0.8.5", "0.8.5.post1", "0.9.0"),
        ("0.25.1..", "0.33.0", "0.25.0"),
    ],
)
def test_both_ends_of_a_range_are_in_it_and_each_may_be_open(releases, inside, outside):
    assert within(releases, inside)
    assert not within(releases, outside)


def test_a_build_that_tells_no_release_is_in_no_range():
    assert not within("..0.33.0", None)
    assert not within("..0.33.0", "0.1.dev11730+gb7a1c02")


@pytest.mark.parametrize(
    ("asked", "value", "so"),
    [
        ("flashinfer", "FlashInfer", True),
        (["mtp", "eagle"], "eagle3", False),
        ("!none", None, True),
        ("!none", "none", False),
        (">=4", 4, True),
        ("<1.2", None, False),
        (">0", True, False),
        ("~MIG-", "MIG-0000", True),
        ("~", None, False),
        ("~", "0", True),
        (True, 1, False),
        (4, 4.0, True),
        (8, (1, 2, 4, 8), True),
    ],
)
def test_what_nobody_said_does_not_fit(asked, value, so):
    assert fits(asked, value) is so
