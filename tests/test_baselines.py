"""What is blessed is kept whole, found again, and never lost."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dflash_doctor import baselines
from dflash_doctor.baselines import Store, choose
from dflash_doctor.formats.baseline import Baseline, Passport, from_snapshot, to_snapshot
from dflash_doctor.model import Interval, Refused, Sample, Setting
from tests.rules.build import card, grown, held, signal, snapshot, speed, steps

SHIPPED = baselines.paths.baselines()


def tuned(**more):
    return snapshot(
        settings={
            "model.path": Setting("model.path", "/models/Qwen3.6-27B", "asked", "--model"),
            "cudagraph.sizes": (1, 2, 4),
            "spec.method": "mtp",
        },
        samples=[
            speed(73.5),
            Sample("tpot_ms", 13.2, "code", 1, prompt="code-1"),
            Sample("tpot_ms", 14.1, "code", 1, prompt="code-2"),
        ],
        readings=[card(0), card(1), card(0, load=False, clocks_sm=210)],
        intervals=[steps(1, 73.5, accept_length=3.2, per_position=(0.9, 0.7))],
        signals=[signal("graph.capture_done", "Graph capturing finished in 9 secs", "INFO")],
        counters=[grown("vllm:num_preemptions_total", 0.0)],
        packages={"torch": "2.11.0"},
        links={(0, 1): "NV4"},
        host={"host": "gpu7", "driver_version": "580.1"},
        version="0.20.1",
        **more,
    )  # fmt: skip


def kept(name="mine", host="gpu7", when="2026-05-01", s=None) -> Baseline:
    return from_snapshot(s or tuned(), name, Passport(captured_at=when, host=host, why="tuned"))


def test_a_baseline_gives_back_what_it_was_made_of(tmp_path):
    store = Store(tmp_path)
    store.save(kept())
    back, was = to_snapshot(store.load("mine").baseline), tuned()
    assert {k: (v.value, v.said, v.spelled) for k, v in back.settings.items()} == {
        k: (v.value, v.said, v.spelled) for k, v in was.settings.items()
    }
    assert [(s.metric, s.value, s.prompt) for s in back.samples] == [(s.metric, s.value, s.prompt) for s in was.samples]
    assert (back.packages, back.links, back.version) == (was.packages, was.links, was.version)
    assert back.intervals[0].per_position == (0.9, 0.7)
    assert back.gpu_numbers("clocks.sm") == was.gpu_numbers("clocks.sm")


def test_a_server_is_healthy_against_its_own_baseline(tmp_path):
    Store(tmp_path).save(kept())
    c = held(tuned(), to_snapshot(Store(tmp_path).load("mine").baseline))
    assert c.drifts == ()
    assert {d.verdict for d in c.deltas} == {"same"}


def test_a_name_in_use_is_not_overwritten_without_a_reason(tmp_path):
    store = Store(tmp_path)
    store.save(kept())
    with pytest.raises(Refused, match=r"exists; overwrite it with --replace --reason"):
        store.save(kept())
    with pytest.raises(Refused):
        store.save(kept(), replace=True, reason="  ")
    store.save(kept(), replace=True, reason="new driver", by="ann")
    assert [(r.why, r.by) for r in store.load("mine").baseline.passport.replaced] == [("new driver", "ann")]


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    store = Store(tmp_path)
    path = store.save(kept())
    before = path.read_text()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(Refused, match="No space left on device"):
        store.save(kept(), replace=True, reason="x")
    assert path.read_text() == before
    assert os.listdir(tmp_path) == ["mine.yaml"]


@pytest.mark.parametrize("name", ["../evil", "", "a b", ".hidden", "x" * 200, "a/b"])
def test_names_that_could_be_paths_are_refused(tmp_path, name):
    with pytest.raises(Refused):
        Store(tmp_path).save(kept(name))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("just: yaml", "it has no line `schema: dflash-doctor/baseline/1`"),
        ("[1, 2", "is not YAML"),
        ("schema: dflash-doctor/baseline/9\nname: x", "this version reads dflash-doctor/baseline/1"),
        ("schema: dflash-doctor/baseline/1\nname: x", "is not a whole baseline"),
        ("", "is not a baseline"),
    ],
)
def test_what_is_no_baseline_is_said_to_be_none(tmp_path, text, says):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(Refused, match=says.replace("(", r"\(")):
        baselines.read(path)


def test_a_binary_file_is_no_baseline(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(Refused, match="no UTF-8"):
        baselines.read(path)


def test_an_unknown_name_tells_what_is_near():
    with pytest.raises(Refused, match=r"near it: qwen3\.6-27b\.a6000x2\.sglang-mtp"):
        Store(Path("/nowhere")).load("qwen3.6-27b.a6000x2.sglang")


def test_shipped_profiles_cannot_be_removed():
    with pytest.raises(Refused, match="shipped"):
        Store(Path("/nowhere")).remove("qwen3.6-27b.a6000x2.sglang-mtp")


def test_the_newest_baseline_of_this_very_host_is_chosen(tmp_path):
    store = Store(tmp_path)
    store.save(kept("old", when="2026-01-01"))
    store.save(kept("new", when="2026-06-01"))
    store.save(kept("other", host="gpu8", when="2026-07-01"))
    choice = choose(tuned(), ["gpu7"], store)
    assert (choice.entry.name, choice.why) == ("new", "the newest baseline captured from this host")


def test_a_baseline_of_this_host_for_another_model_does_not_fit(tmp_path):
    store = Store(tmp_path, tmp_path / "none")
    store.save(kept())
    now = snapshot(settings={"model.path": "/models/Llama-70B"}, readings=[card(0), card(1)])
    assert choose(now, ["gpu7"], store).entry is None


def test_a_shipped_profile_of_the_same_model_and_cards_is_chosen(tmp_path):
    now = snapshot(settings={"model.path": "/data/Qwen3.6-27B"}, readings=[card(0), card(1)])
    assert choose(now, ["gpu9"], Store(tmp_path)).entry.name == "qwen3.6-27b.a6000x2.sglang-mtp"


def test_when_several_fit_equally_none_is_taken_and_they_are_listed(tmp_path):
    now = snapshot(settings={"model.path": "/data/Qwen3-8B"}, readings=[card(0, name="NVIDIA H800")])
    choice = choose(now, ["gpu9"], Store(tmp_path))
    assert choice.entry is None
    assert choice.tied == ("qwen3-8b.h800x1.vllm-dflash", "qwen3-8b.h800x1.vllm-eagle3")


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_profiles_say_what_they_are(path):
    b = baselines.read(path)
    assert b.name == path.stem
    assert b.passport.published
    assert "published single values" in b.passport.note
    assert b.passport.sources


def test_the_published_figures_are_the_published_figures():
    def speeds(name):
        b = baselines.read(SHIPPED / f"{name}.yaml")
        return [n.values[0] for n in b.numbers if n.metric == "output_tok_s"]

    assert speeds("qwen3.6-27b.a6000x2.sglang-mtp") == [73.5]
    assert speeds("qwen3.8-27b-nvfp4.gb10x1.sglang-dflash2") == [41.2, 40.0, 28.0, 24.9]
    assert speeds("qwen3-8b.h800x1.vllm-eagle3") == [222.77, 413.02, 597.85, 739.8]
    assert speeds("qwen3-8b.h800x1.vllm-dflash") == [307.11, 568.01, 804.87, 962.37]


def test_the_file_is_yaml_that_people_read(tmp_path):
    text = Store(tmp_path).save(kept()).read_text()
    assert text.startswith("schema: dflash-doctor/baseline/1\nname: mine\npassport:\n")
    assert yaml.safe_load(text)["conditions"]["gpus"] == ["NVIDIA RTX A6000", "NVIDIA RTX A6000"]


def test_what_the_prefix_cache_found_is_the_same_after_keeping():
    # SGLang tells it in prefill lines only, and those are no steady state
    prefill = [
        Interval(i, None, kind="prefill", prefix_hit_rate=rate, steady=False) for i, rate in enumerate((0.0, 0.0, 0.8))
    ]
    back = to_snapshot(kept(s=replace(tuned(), intervals=(steps(1, 73.5), *prefill))))
    assert [i.prefix_hit_rate for i in back.intervals] == [None, 0.0, 0.0, 0.8]
    assert [i.steady for i in back.intervals] == [True, False, False, False]


def test_broken_yaml_is_said_with_its_line(tmp_path):
    (tmp_path / "x.yaml").write_text("a: [b\n  : :\n")
    with pytest.raises(Refused, match=r"is not YAML: .* \(line 2\)$"):
        baselines.read(tmp_path / "x.yaml")
