"""A check of many hosts in the forms that other programs read: JUnit, GitHub, Prometheus, Nagios, webhooks."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from dflash_doctor.formats.check import GRAVITY, Checked, CheckFile
from dflash_doctor.report.fleet import said, tally
from dflash_doctor.report.hosttext import plain
from dflash_doctor.report.markdown import prose

CALM = ("healthy", "minor", "unconfirmed")
NAGIOS = {0: "OK", 1: "CRITICAL", 2: "UNKNOWN"}  # the words of the plugin guidelines for what we end with
NAGIOS_STATUS = {0: 0, 1: 2, 2: 3}  # and their exit statuses: 2 is critical, 3 unknown
LONGEST = 3000  # characters: what Slack takes in one block
XML_FORBIDS = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


def as_json(c: CheckFile) -> str:
    """The whole document (formats/check.py)."""
    return c.model_dump_json(by_alias=True, indent=2) + "\n"


def junit(c: CheckFile) -> str:
    """One test case a host: a failure where it ends with 1, an error where it could not be looked at."""
    failed, errors = (sum(h.status == s for h in c.hosts) for s in (1, 2))
    counts = {"tests": str(len(c.hosts)), "failures": str(failed), "errors": str(errors), "time": f"{c.seconds:.3f}"}
    root = ET.Element("testsuites", counts)
    suite = ET.SubElement(root, "testsuite", {"name": "dflash-doctor", **counts})
    if c.began_at:
        suite.set("timestamp", c.began_at)
    for h in c.hosts:
        case = ET.SubElement(
            suite, "testcase", {"classname": ".".join(_xml(g) for g in h.groups) or "hosts", "name": _xml(h.name),
                                "time": f"{h.seconds:.3f}"},
        )  # fmt: skip
        if h.status:
            kind = "failure" if h.status == 1 else "error"
            ET.SubElement(case, kind, {"type": h.verdict, "message": _xml(said(h))}).text = _xml(_causes(h))
        else:
            ET.SubElement(case, "system-out").text = _xml(h.says)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    return XML_FORBIDS.sub("?", plain(text))


def _causes(h: Checked) -> str:
    rows = [f"{f.cause} ({f.confidence or 0:.0%}): {plain(f.summary)}" for f in h.loud]
    return "; ".join([*rows, *([plain(h.beside)] if h.beside else [])])


def github_summary(c: CheckFile) -> str:
    """A job summary in Markdown."""
    rows = [
        f"| {prose(h.name)} | {h.verdict.replace('_', ' ')} | {prose(said(h))} | {prose(_causes(h)) or '–'} |"
        for h in c.hosts
    ]
    return "\n".join(
        [f"### {prose(tally(c))}", "", "| host | verdict | what | causes |", "|---|---|---|---|", *rows, ""]
    )


def github_annotations(c: CheckFile) -> str:
    """A workflow command a host that is not well."""
    kinds = {1: "error", 2: "warning", 0: "notice"}
    rows = [
        f"::{kinds[h.status]} title={_property(f'{h.name}: {h.verdict}')}::{_data('; '.join(filter(None, _both(h))))}"
        for h in c.hosts
        if h.verdict not in ("healthy", "minor")
    ]
    return "".join(f"{row}\n" for row in rows)


def _both(h: Checked) -> tuple[str, str]:
    return said(h), _causes(h)


def _data(text: str) -> str:
    # https://docs.github.com/actions: in a command's text %, CR and LF are escaped, in a property : and , too
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(plain(text)).replace(":", "%3A").replace(",", "%2C")


def prometheus(c: CheckFile, at: float) -> str:
    """Text for the node exporter's textfile collector; `at` is the moment of the check in seconds."""
    r = CollectorRegistry()
    verdict = Gauge("dflash_doctor_verdict", "1 for the verdict of a host", ["host", "verdict"], registry=r)
    status = Gauge("dflash_doctor_status", "Exit status: 0 well, 1 regressed, 2 unknown", ["host"], registry=r)
    factor = Gauge("dflash_doctor_speed_factor", "Speed against the baseline, below 1 is slower", ["host"], registry=r)
    speed = Gauge("dflash_doctor_speed", "What was measured", ["host", "metric", "workload"], registry=r)
    finding = Gauge("dflash_doctor_finding", "Confidence in a cause", ["host", "cause", "severity"], registry=r)
    seconds = Gauge("dflash_doctor_check_seconds", "How long a host took", ["host"], registry=r)
    last = Gauge("dflash_doctor_last_check_timestamp_seconds", "When it was checked", registry=r)
    last.set(at)
    for h in c.hosts:
        name = plain(h.name)
        for word in GRAVITY:
            verdict.labels(name, word).set(h.verdict == word)
        status.labels(name).set(h.status)
        seconds.labels(name).set(h.seconds)
        if h.report is None:
            continue
        slow = h.report.slowdown
        if slow is not None and slow.factor is not None:
            factor.labels(name).set(slow.factor)
        if slow is not None and slow.now is not None:
            speed.labels(name, slow.metric, plain(slow.workload or "")).set(slow.now)
        for f in h.loud:
            finding.labels(name, f.cause, f.severity).set(f.confidence or 0.0)
    return generate_latest(r).decode()


def nagios(c: CheckFile) -> str:
    """One line of a monitoring plugin, with its performance data; `NAGIOS_STATUS` has the statuses that go with it."""
    ill = [h for h in c.hosts if h.verdict not in CALM]
    what = "; ".join(f"{plain(h.name)} {h.verdict}: {said(h)}" for h in ill[:3]) or tally(c)
    more = f"; {len(ill) - 3} more" if len(ill) > 3 else ""
    data = " ".join(f"{v}={c.count(v)}" for v in GRAVITY)
    return f"DFLASH-DOCTOR {NAGIOS[c.status]} - {(what + more).replace('|', '/')} | {data}\n"


def webhook(c: CheckFile) -> dict[str, Any]:
    """What Slack's incoming webhooks and their likes take: `text` for the rest, `blocks` for those who can."""
    ill = [h for h in c.hosts if h.verdict not in CALM]
    rows = [f"*{_slack(h.name)}* {h.verdict}: {_slack(said(h))} {_slack(_causes(h))}".strip() for h in ill]
    text = "\n".join([_slack(tally(c)), *rows])[:LONGEST]
    return {
        "text": text,
        "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": text}}],
        "status": c.status,
        "hosts": {h.name: h.verdict for h in c.hosts if h.verdict not in ("healthy", "minor")},
    }


def _slack(text: str) -> str:
    return plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
