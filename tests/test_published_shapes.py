"""What other programs may read and write: load.json and the baseline YAML, each with its schema and a real example.

After a wanted change of the shapes: python tests/test_published_shapes.py (it runs the simulated host for a minute).
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path

import jsonschema
import pytest
import yaml

from dflash_doctor import baselines
from dflash_doctor.formats.baseline import Baseline
from dflash_doctor.formats.load import LoadFile
from dflash_doctor.parsers import load_json

EXAMPLES = Path(__file__).parent.parent / "examples"
SHAPES = {"load": LoadFile, "baseline": Baseline}


def published(name):
    return json.loads((EXAMPLES / f"{name}.schema.json").read_text(encoding="utf-8"))


def schema(name):
    return json.dumps(SHAPES[name].model_json_schema(by_alias=True), indent=2) + "\n"


def fields(found):
    # pydantic words a type now this way, now that; the fields are what counts
    parts = {"": found, **found["$defs"]}
    return {name: (sorted(p["properties"]), sorted(p.get("required", ()))) for name, p in parts.items()}


def load():
    return json.loads((EXAMPLES / "load.json").read_text(encoding="utf-8"))


def baseline():
    return yaml.safe_load((EXAMPLES / "baseline.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SHAPES)
def test_the_published_schema_has_the_fields_in_use(name):
    assert fields(published(name)) == fields(json.loads(schema(name)))
    assert published(name)["properties"]["schema"]["const"] == f"dflash-doctor/{name}/1"


@pytest.mark.parametrize(("name", "example"), [("load", load), ("baseline", baseline)])
def test_the_published_example_is_of_the_published_shape(name, example):
    jsonschema.validate(example(), published(name))
    SHAPES[name].model_validate(example())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**example(), "schema": f"dflash-doctor/{name}/0"}, published(name))


def test_the_example_load_is_a_whole_and_quiet_one():
    file = LoadFile.model_validate(load())
    assert (file.preset, file.partial, file.notes) == ("quick", False, [])
    assert [(r.concurrency, len(r.requests)) for r in file.rounds] == [(1, 8), (2, 8)]
    for x in file.rounds:
        assert x.server is not None and x.server.foreign_running_max == 0
        for r in x.requests:
            assert r.status == "ok" and r.output_tokens == x.max_tokens
            assert r.tpot_ms == pytest.approx((r.e2e_ms - r.ttft_ms) / (r.output_tokens - 1))


def test_the_example_load_is_read_as_any_other():
    facts = load_json.parse(json.dumps(load()), "load.json")
    speeds = [s.value for s in facts.samples if s.metric == "output_tok_s" and s.prompt and s.concurrency == 1]
    assert len(speeds) == 8 and all(60 < v < 85 for v in speeds)
    assert facts.gaps == ()


def test_the_example_baseline_is_read_as_any_other(tmp_path):
    (tmp_path / "tuned.yaml").write_text((EXAMPLES / "baseline.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    entry = baselines.Store(tmp_path).load("tuned")
    assert entry.baseline.conditions.engine == "sglang" and entry.baseline.passport.published is False
    assert {k.key for k in entry.baseline.settings} >= {"spec.method", "attention.backend", "parallel.tp"}


def test_the_examples_tell_nothing_of_the_machine_they_were_made_on():
    for name in ("load.json", "baseline.yaml"):
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        assert not re.findall(r"/tmp/|/home/|/work/", text)


def make():
    """Write all four files anew: the shapes as they are, the examples from the simulated tuned host."""
    from dflash_doctor import cli
    from dflash_doctor.simulate.host import SimulatedHost

    for name in SHAPES:
        (EXAMPLES / f"{name}.schema.json").write_text(schema(name), encoding="utf-8")
    with SimulatedHost("a6000-tuned") as host, tempfile.TemporaryDirectory() as folder:
        kept, seen = Path(folder) / "store", Path(folder) / "seen"
        how = ["--ssh-config", str(host.ssh_config)]
        why = "SGLang with its MTP head, after a week of tuning"
        words = ["baseline", "capture", host.target, "--name", "tuned", "--why", why, "--store", str(kept), *how]
        cli.app(words, standalone_mode=False)
        cli.app(["collect", host.target, "--load", "-o", str(seen), *how], standalone_mode=False)
        (EXAMPLES / "baseline.yaml").write_text((kept / "tuned.yaml").read_text(encoding="utf-8"), encoding="utf-8")
        (EXAMPLES / "load.json").write_text((seen / "load.json").read_text(encoding="utf-8"), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(make())
