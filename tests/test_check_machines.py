"""What a check says to other programs: well-formed, whatever a host wrote."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dflash_doctor.formats.check import Checked, CheckFile, sorted_by_gravity
from dflash_doctor.formats.report import Engine, Finding, ReportFile, Slowdown, Tool
from dflash_doctor.report import fleet, machines

HOSTILE = 'gpu"7\\\n\x1b[31m<b>|`&::error::%\x00]]>\u202e'


def host(name, verdict, status, says, factor=None, cause=None, groups=()):
    slow = None if factor is None else Slowdown(
        metric="output_tok_s", workload="chat", concurrency=1, was=73.5, now=73.5 * factor, factor=factor, low=None,
        high=None, parts=[],
    )  # fmt: skip
    found = [] if cause is None else [
        Finding(rank=1, cause=cause, severity="critical", confidence=0.72, summary=f"it is {name}", impact=None,
                evidence=[], against=[], effects=[], next_steps=[])
    ]  # fmt: skip
    report = ReportFile(
        tool=Tool(version="0"), target=name, taken_at=None, engine=Engine(name="vllm", version="0.20.1"), baseline=None,
        verdict=verdict, slowdown=slow, findings=found, deltas=[], drifts=[], gaps=[],
    ) if verdict != "unreachable" else None  # fmt: skip
    return Checked(
        name=name, groups=list(groups), verdict=verdict, status=status, says=says, seconds=1.5, report=report
    )


ILL = [
    host("gpu3", "healthy", 0, "healthy: 73.5 tok/s, was 73.5", 1.0),
    host("gpu9", "unreachable", 2, "nothing listens there"),
    host("gpu5", "regressed", 1, "regressed: 40 tok/s", 0.54, "gpu.clock_throttle", ["prod"]),
    host("gpu7", "regressed", 1, "regressed: 17.7 tok/s, was 73.5 (4.2x slower)", 0.241, "spec.drafter_undertrained"),
    host("gpu4", "unconfirmed", 0, "unconfirmed: 70 tok/s", 0.95),
]


def check(hosts, status=1):
    return CheckFile(label="x", began_at="2026-12-01T03:00:00+00:00", seconds=12.0, status=status,
                     hosts=sorted_by_gravity(hosts))  # fmt: skip


def test_the_gravest_stands_first_and_those_that_are_well_are_only_named():
    text = fleet.render(check(ILL), width=100)
    assert [line.split()[0] for line in text.splitlines() if line[:1] != " "] == [
        "regressed", "unreachable", "unconfirmed", "healthy:", "5",
    ]  # fmt: skip
    assert text.index("gpu7") < text.index("gpu5"), "the slowest of them first"
    assert text.endswith("5 hosts in 12 s: 2 regressed, 1 unreachable, 1 unconfirmed, 1 healthy\n")
    assert "spec.drafter_undertrained, likely (72%): it is gpu7" in text


def test_a_host_s_words_cannot_restyle_the_terminal():
    text = fleet.render(check([host(HOSTILE, "unreachable", 2, HOSTILE)]), width=80)
    assert all(line.isprintable() for line in text.splitlines())


def test_junit_has_a_case_a_host_failed_where_it_is_slower_and_in_error_where_it_could_not_be_seen():
    root = ET.fromstring(machines.junit(check(ILL)))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", "2", "1")
    cases = {c.get("name"): c for c in root.iter("testcase")}
    assert cases["gpu7"].find("failure").get("message") == "17.7 tok/s, was 73.5 (4.2x slower)"
    assert "spec.drafter_undertrained (72%)" in cases["gpu7"].find("failure").text
    assert cases["gpu9"].find("error").get("type") == "unreachable"
    assert cases["gpu5"].get("classname") == "prod"
    assert len(cases["gpu3"].findall("failure")) == 0


def test_github_gets_an_annotation_for_each_host_that_is_not_well_and_a_table():
    rows = machines.github_annotations(check(ILL)).splitlines()
    assert [r.split(" ", 1)[0] for r in rows] == ["::error", "::error", "::warning", "::notice"]
    assert rows[0].startswith("::error title=gpu7%3A regressed::17.7 tok/s")
    table = machines.github_summary(check(ILL))
    assert table.count("\n| ") == 6 and table.startswith("### 5 hosts")


def test_prometheus_reads_its_text_and_finds_each_finding():
    families = {f.name: f for f in text_string_to_metric_families(machines.prometheus(check(ILL), 1764558000.0))}
    finding = families["dflash_doctor_finding"].samples
    assert {(s.labels["host"], s.labels["cause"], s.value) for s in finding} == {
        ("gpu7", "spec.drafter_undertrained", 0.72), ("gpu5", "gpu.clock_throttle", 0.72),
    }  # fmt: skip
    assert {s.labels["host"]: s.value for s in families["dflash_doctor_status"].samples}["gpu9"] == 2
    assert sum(s.value for s in families["dflash_doctor_verdict"].samples) == 5
    assert families["dflash_doctor_last_check_timestamp_seconds"].samples[0].value == 1764558000.0


@pytest.mark.parametrize(("hosts", "status", "begins"), [
    (ILL, 1, "DFLASH-DOCTOR CRITICAL - gpu7 regressed: 17.7 tok/s"),
    (ILL[:2], 2, "DFLASH-DOCTOR UNKNOWN - gpu9 unreachable: nothing listens there | regressed=0 "),
    (ILL[:1], 0, "DFLASH-DOCTOR OK - 1 host in 12 s: 1 healthy | "),
])  # fmt: skip
def test_nagios_gets_one_line_with_its_numbers(hosts, status, begins):
    line = machines.nagios(check(hosts, status))
    assert line.startswith(begins) and line.count("\n") == 1 and line.count("|") == 1
    assert line.endswith("healthy=1\n")


def test_a_webhook_gets_what_slack_takes():
    body = machines.webhook(check(ILL))
    assert body["text"].startswith("5 hosts in 12 s: 2 regressed")
    assert body["blocks"][0]["text"]["type"] == "mrkdwn"
    assert body["hosts"] == {"gpu7": "regressed", "gpu5": "regressed", "gpu9": "unreachable", "gpu4": "unconfirmed"}


def test_what_a_host_wrote_breaks_no_format():
    c = check([host(HOSTILE, "regressed", 1, HOSTILE, 0.5, "gpu.clock_throttle", [HOSTILE])])
    assert len(list(ET.fromstring(machines.junit(c)).iter("testcase"))) == 1
    assert len(machines.github_annotations(c).splitlines()) == 1
    assert machines.nagios(c).count("\n") == 1 and machines.nagios(c).count("|") == 1
    assert "<b>" not in machines.webhook(c)["text"]
    assert len(list(text_string_to_metric_families(machines.prometheus(c, 1.0)))) == 7
    assert json.loads(machines.as_json(c))["hosts"][0]["name"] == HOSTILE
    rows = [r for r in machines.github_summary(c).splitlines() if r.startswith("|")]
    assert len(rows) == 3 and "<b>" not in rows[2]
