"""What programs read. After a wanted change of the published files: python tests/test_report_json.py"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from report_stories import HOSTILE, a6000, healthy, hostile, inconclusive, not_comparable

from dflash_doctor.formats.report import ReportFile
from dflash_doctor.model import Comparison, Diagnosis, Drift, Part, Setting, Slowdown, Snapshot
from dflash_doctor.report import as_json

EXAMPLES = Path(__file__).parent.parent / "examples"
SCHEMA, EXAMPLE = EXAMPLES / "report.schema.json", EXAMPLES / "report.json"
# the fields outside programs rely on; they may never be renamed
CONTRACT = {
    "": {"schema", "target", "taken_at", "engine", "baseline", "verdict", "slowdown", "findings", "deltas", "drifts"},
    "engine": {"name", "version"},
    "slowdown": {"metric", "workload", "concurrency", "was", "now", "factor", "low", "high", "parts"},
    "slowdown.parts": {"name", "factor", "cause"},
    "findings": {"rank", "cause", "severity", "confidence", "summary", "impact", "evidence", "effects", "next_steps"},
    "findings.impact": {"factor", "low", "high"},
    "findings.evidence": {"source", "line", "text"},
    "deltas": {"metric", "unit", "was", "now", "verdict", "note"},
    "drifts": {"key", "was", "now"},
    "gaps": {"what", "why"},
}  # fmt: skip


def doc(d):
    return json.loads(as_json.render(d), parse_constant=lambda x: pytest.fail(f"{x} is no JSON"))


@pytest.mark.parametrize("path", CONTRACT)
def test_the_contract_holds(path):
    found = doc(a6000())
    for step in filter(None, path.split(".")):
        found = found[step]
        found = found[0] if isinstance(found, list) else found
    assert CONTRACT[path] <= set(found)


def test_the_story_is_told_in_numbers():
    found = doc(a6000())
    assert found["schema"] == "dflash-doctor/report/1"
    assert found["verdict"] == "regressed" and found["engine"] == {"name": "vllm", "version": "0.20.1"}
    assert (found["slowdown"]["was"], found["slowdown"]["now"], found["slowdown"]["concurrency"]) == (73.5, 17.7, 1)
    assert [f["rank"] for f in found["findings"]] == [1, 2, 3]
    assert found["findings"][0]["evidence"][0]["line"] == 24
    assert {"key": "attention.backend", "was": "flashinfer", "now": "flash_attn"} in found["drifts"]


def test_lists_and_switches_keep_their_shape():
    drifts = {d["key"]: d for d in doc(a6000())["drifts"]}
    assert drifts["cudagraph.sizes"]["was"] == [1, 2, 4, 8, 12, 16]
    assert drifts["sched.async"]["was"] is True and drifts["sched.async"]["now"] is None


def test_what_is_no_number_is_null():
    nan, inf = float("nan"), float("inf")
    slow = Slowdown("output_tok_s", 73.5, nan, inf, low=-inf, parts=(Part("step time", nan),))
    odd = Drift("kv.x", Setting("kv.x", nan), Setting("kv.x", {"a": (1, inf)}))
    now = Snapshot("x")
    found = doc(Diagnosis("x", "regressed", Comparison(now, now, drifts=(odd,)), slowdown=slow))
    assert found["slowdown"]["now"] is None and found["slowdown"]["low"] is None
    assert found["drifts"][0] == {"key": "kv.x", "was": None, "now": {"a": [1, None]}}


def test_evidence_is_kept_as_the_host_wrote_it_and_escaped_on_the_way():
    text = as_json.render(hostile())
    assert all(c.isprintable() or c == "\n" for c in text)
    assert json.loads(text)["findings"][0]["evidence"][0]["text"] == HOSTILE


def test_half_a_character_can_still_be_written_as_utf8():
    text = as_json.render(replace(healthy(), target="gpu\ud83d"))
    assert json.loads(text.encode("utf-8"))["target"] == "gpu?"


@pytest.mark.parametrize("story", [a6000, healthy, hostile, not_comparable, inconclusive])
def test_every_report_fits_the_published_schema(story):
    jsonschema.validate(doc(story()), ReportFile.model_json_schema(by_alias=True))
    assert ReportFile.model_validate(doc(story()))


def test_a_reader_of_today_reads_the_report_of_tomorrow():
    later = {**doc(a6000()), "horoscope": "good"}
    assert ReportFile.model_validate(later).verdict == "regressed"


def schema():
    return json.dumps(ReportFile.model_json_schema(by_alias=True), indent=2) + "\n"


def fields(schema):
    # pydantic words a type now this way, now that; the fields are what counts
    parts = {"": schema, **schema["$defs"]}
    return {name: (sorted(p["properties"]), sorted(p.get("required", ()))) for name, p in parts.items()}


def test_the_published_schema_has_the_fields_in_use():
    assert fields(json.loads(SCHEMA.read_text(encoding="utf-8"))) == fields(json.loads(schema()))


def test_the_published_example_is_a_report():
    example = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    jsonschema.validate(example, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert {**example, "tool": None} == {**doc(a6000()), "tool": None}


if __name__ == "__main__":
    SCHEMA.write_text(schema(), encoding="utf-8")
    EXAMPLE.write_text(as_json.render(a6000()), encoding="utf-8")
