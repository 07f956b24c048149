"""Which hosts a list means, and how each is looked at."""

from __future__ import annotations

from datetime import time

import pytest

from dflash_doctor import hosts
from dflash_doctor.fleet import Wanted, plan, read, wanted
from dflash_doctor.model import Refused

FILE = """
defaults: {preset: brief, ssh: {User: doctor, Port: 2222}}
hosts: [lone]
groups:
  prod:
    baseline: tuned
    quiet_hours: "22:00-06:30"
    hosts:
      - gpu1
      - {target: gpu2, engine_port: 8001, preset: thorough, ssh: {User: root}}
  lab: {hosts: [gpu1, "lab-*"]}
"""
CONFIG = "Host lab-a lab-b\nHost other !lab-c\nHost *\n"


def written(tmp_path, text, name="hosts.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_host_counts_before_its_group_and_that_before_the_defaults(tmp_path):
    lone, gpu1, gpu2, *_ = read(written(tmp_path, FILE))
    assert (lone.target, lone.preset, lone.baseline, lone.groups) == ("lone", "brief", None, ())
    assert (gpu1.preset, gpu1.baseline, gpu1.groups) == ("brief", "tuned", ("prod",))
    assert (gpu2.name, gpu2.preset, gpu2.ssh) == ("gpu2#8001", "thorough", {"User": "root", "Port": "2222"})


def test_patterns_are_spelled_out_and_a_host_is_there_once(tmp_path):
    config = written(tmp_path, CONFIG, "config")
    found = wanted(read(written(tmp_path, FILE)), hosts.aliases(config))
    assert [w.name for w in found] == ["lone", "gpu1", "gpu2#8001", "lab-a", "lab-b"]
    assert found[1].groups == ("prod", "lab")


def test_groups_and_names_narrow_the_list(tmp_path):
    listed = read(written(tmp_path, FILE))
    assert [w.name for w in wanted(listed, ["lab-a"], ["lab"])] == ["gpu1", "lab-a"]
    assert [w.name for w in wanted(listed, ["lab-a"], ["prod"], ["gpu2*"])] == ["gpu2#8001"]


@pytest.mark.parametrize(
    ("groups", "only", "aliases", "says"),
    [
        (["prd"], [], ["lab-a"], "no group 'prd'; there are lab, prod"),
        ([], ["gpu9"], ["lab-a"], "no host of the list fits 'gpu9'"),
        ([], [], [], r"no name in the ssh configuration fits 'lab-\*'"),
    ],
)
def test_what_fits_nothing_is_said(tmp_path, groups, only, aliases, says):
    with pytest.raises(Refused, match=says):
        wanted(read(written(tmp_path, FILE)), aliases, groups, only)


def test_a_plain_list_has_one_target_a_line(tmp_path):
    text = "\ufeff# ours\r\ngpu1\r\n\r\nme@gpu2:2222  # the other\n[::1]:22\n"
    assert [w.target for w in read(written(tmp_path, text, "hosts.txt"))] == ["gpu1", "me@gpu2:2222", "[::1]:22"]
    assert wanted([Wanted("[::1]:22")], []) == (Wanted("[::1]:22"),), "an address is no pattern"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("h.yaml", "groups: {a: {hosts: [x], baselin: y}}", "groups.a.baselin"),
        ("h.yaml", "groups: {a: {quiet_hours: '25:00-3:00'}}", "write them as 22:00-06:30"),
        ("h.yaml", "hosts: [", "is not YAML"),
        ("h.yaml", "- gpu1", "is not a hosts.yaml"),
        ("h.txt", "gpu1 ansible_host=10.0.0.1", "more than one word"),
        ("h.txt", "caf\udce9", "no UTF-8 text"),
    ],
)
def test_what_is_no_list_is_one_sentence(tmp_path, name, text, says):
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(Refused, match=says):
        read(path)


def test_a_list_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(Refused, match="cannot be read: No such file"):
        read(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("hours", "at", "quiet"),
    [
        ("22:00-06:30", time(23, 0), True), ("22:00-06:30", time(6, 29), True), ("22:00-06:30", time(6, 30), False),
        ("08:00-18:00", time(8, 0), True), ("08:00-18:00", time(18, 0), False), (None, time(3, 0), False),
    ],
)  # fmt: skip
def test_quiet_hours_may_go_past_midnight(hours, at, quiet):
    assert Wanted("gpu1", quiet_hours=hours).quiet(at) is quiet


def test_options_of_a_host_count_before_the_configuration(tmp_path):
    config = written(tmp_path, "Host gpu1\n  Port 22\n  User me\n  HostName 10.0.0.1\n", "config")
    host = hosts.resolve("gpu1", config, {"Port": "2222"})
    assert (host.address, host.port, host.user) == ("10.0.0.1", 2222, "me")


@pytest.mark.parametrize("given", [{"Host": "x"}, {"Match": "exec rm"}, {"Include": "/x"}, {"Port": "22\nHost *"}])
def test_options_cannot_begin_a_block_of_their_own(tmp_path, given):
    with pytest.raises(Refused, match="is not an option of ssh"):
        hosts.resolve("gpu1", written(tmp_path, "", "config"), given)


def test_a_check_is_the_same_one_only_with_the_same_hosts_and_the_same_words():
    two = [Wanted("gpu1"), Wanted("gpu2")]
    assert plan(two, {"load": None}) == plan(two[::-1], {"load": None})
    assert len({plan(two, {"load": None}), plan(two, {"load": False}), plan(two[:1], {"load": None})}) == 3
