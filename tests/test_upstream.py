"""What upstream knows speaks for a cause that a rule names, and is only worth a look where none does."""

from __future__ import annotations

import json

from dflash_doctor.compare import compare
from dflash_doctor.diagnose import diagnose
from dflash_doctor.model import Capture
from dflash_doctor.parse import parse
from dflash_doctor.report import as_json, markdown, terminal

EAGLE3 = """--speculative-config '{"method":"eagle3","model":"/models/head","num_speculative_tokens":3}'"""


def snapshot(version, tok_s, run="vllm serve /models/m", **files):
    files |= {"cmdline": run, "packages.txt": f"vllm=={version}"}
    files["load.yaml"] = f"- {{workload: chat, concurrency: 1, output_tok_s: {tok_s}}}"
    return parse(Capture("host", {name.replace("_", "."): text.encode() for name, text in files.items()}))


def told(now, was=None):
    return diagnose(compare(now, was), "gpu7", baseline=None if was is None else "tuned")


def known(d):
    return {f.cause: [k.id for k in f.known] for f in d.findings if f.known}


def test_a_known_release_speaks_for_the_engine_and_the_report_says_where_and_the_way_out():
    d = told(snapshot("0.12.0", 28), snapshot("0.10.2", 60))
    assert d.findings[0].cause == "version.engine_regression"
    assert known(d) == {"version.engine_regression": ["vllm-012"]}
    link = "https://github.com/vllm-project/vllm/issues/31030"
    shown = terminal.render(d, width=60)
    assert "known    a user's server fell to half its speed" in shown
    assert link in shown and "way out: start 0.10.2 once" in shown
    assert f"<{link}>" in markdown.render(d)
    (issue,) = json.loads(as_json.render(d))["findings"][0]["known_issues"]
    assert issue["link"] == link and issue["size"] == "60 tok/s became 28"


def test_it_makes_the_cause_surer():
    plain = told(snapshot("0.13.0", 28), snapshot("0.10.2", 60))
    assert not known(plain)
    assert told(snapshot("0.12.0", 28), snapshot("0.10.2", 60)).findings[0].confidence > plain.findings[0].confidence


def test_what_the_tuned_side_has_too_is_no_news():
    assert not known(told(snapshot("0.12.0", 28), snapshot("0.12.0", 60)))


def test_a_server_as_fast_as_it_was_is_left_in_peace():
    d = told(snapshot("0.24.0", 60), snapshot("0.23.0", 60))
    assert all(f.severity == "info" for f in d.findings)
    assert d.verdict == "healthy"


def test_alone_it_is_worth_a_look_where_a_loss_has_no_answer():
    xgrammar = """vllm serve /models/m --structured-outputs-config '{"backend":"xgrammar"}'"""
    d = told(snapshot("0.23.0", 30, xgrammar), snapshot("0.23.0", 60))
    (found,) = d.findings
    assert known(d) == {"host.cpu_bound": ["vllm-grammar-pool-cgroup"]}
    assert found.severity == "info" and found.confidence < 0.5
    assert [u.part for u in d.unexplained] == ["step time"]
    assert "https://github.com/vllm-project/vllm/issues/49460" in terminal.render(d)


def test_beside_another_engine_its_issues_are_no_news():
    was = parse(Capture("sglang", {
        "cmdline": b"python3 -m sglang.launch_server --model-path /models/m", "packages.txt": b"sglang==0.5.10",
        "load.yaml": b"- {workload: chat, concurrency: 1, output_tok_s: 60}",
    }))  # fmt: skip
    d = told(snapshot("0.24.0", 30), was)
    assert not known(d)
