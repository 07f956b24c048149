"""Our rounds as another tool writes its own: read back, they say the same."""

from __future__ import annotations

import json

import pytest

from dflash_doctor.load.exporting import vllm_bench
from dflash_doctor.parsers import load_json
from tests.command_line import refused, run
from tests.load_server import Server, loaded


@pytest.fixture(scope="module")
def file():
    return loaded(Server(ttft_s=0.2, step_s=0.02, per_step=2))[0]


def test_a_round_reads_back_as_what_it_was(file):
    one, two = vllm_bench(file)
    assert (one["max_concurrency"], two["max_concurrency"], one["completed"], one["failed"]) == (1, 2, 8, 0)
    facts = load_json.parse(json.dumps(one), "load.json")
    whole = {s.metric: s.value for s in facts.samples if s.prompt is None}
    assert whole["output_tok_s"] == pytest.approx(8 * file.rounds[0].max_tokens / file.rounds[0].wall_ms * 1000)
    assert whole["accept_length"] == 2
    assert one["mean_ttft_ms"] == pytest.approx(200) and one["median_tpot_ms"] == pytest.approx(10, rel=0.02)
    assert not any("itl" in key for key in one), "gaps of single chunks are not kept"


def test_what_failed_is_counted_and_has_its_reason(file):
    bad = file.rounds[0].requests[0].model_copy(update={"status": "failed", "error": "HTTP 500"})
    one = file.rounds[0].model_copy(update={"requests": [bad], "wall_ms": 0.0, "server": None})
    (found,) = vllm_bench(file.model_copy(update={"rounds": [one]}))
    assert (found["completed"], found["failed"], found["errors"]) == (0, 1, ["HTTP 500"])
    assert "mean_ttft_ms" not in found and "output_throughput" not in found


def test_the_command_writes_a_line_for_each_round(file, tmp_path):
    (tmp_path / "load.json").write_text(file.model_dump_json(by_alias=True))
    for target in (tmp_path, tmp_path / "load.json"):
        done = run("load", "export", str(target), "--as", "vllm-bench")
        assert [json.loads(line)["max_concurrency"] for line in done.stdout.splitlines()] == [1, 2]


def test_what_holds_no_rounds_of_ours_is_refused(tmp_path):
    assert "no load.json" in refused("load", "export", str(tmp_path))
    (tmp_path / "load.json").write_text('{"backend": "vllm"}')
    assert "no load rounds of ours" in refused("load", "export", str(tmp_path))
    assert "it is one of vllm-bench" in refused("load", "export", str(tmp_path), "--as", "csv")
