"""model.dtype_or_weights_changed: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dflash_doctor.model import Setting
from tests.rules.build import found, signal, snapshot


def test_another_dtype_is_named():
    now = snapshot(settings={"model.dtype": Setting("model.dtype", "bfloat16", "asked", "--dtype")})
    finding = found("model.dtype_or_weights_changed", now, snapshot(settings={"model.dtype": "float32"}))
    assert finding.summary == "model.dtype: float32 -> bfloat16"
    assert finding.next_steps == ("put --dtype back to float32",)


def test_the_same_checkpoint_under_another_path_is_no_change():
    now, was = (
        snapshot(settings={"model.path": "/data/Qwen3.6-27B"}),
        snapshot(settings={"model.path": "/models/Qwen3.6-27B"}),
    )
    assert found("model.dtype_or_weights_changed", now, was) is None


def test_a_name_that_points_to_heavier_weights_is_another_checkpoint():
    def loads(gib, **more):
        line = signal("mem.weights", f"Load weight end. mem usage={gib} GB", "INFO", usage=str(gib))
        return snapshot("sglang", settings={"model.path": "/models/current"} | more, signals=[line])

    finding = found("model.dtype_or_weights_changed", loads(26.9), loads(14.3))
    assert finding.summary == "/models/current is another checkpoint than it was; the weights take 1.88x the memory"
    assert len(finding.evidence) == 2
    assert found("model.dtype_or_weights_changed", loads(15.0), loads(14.3)) is None
    split = loads(26.9, **{"parallel.tp": 1}), loads(14.3, **{"parallel.tp": 2})
    assert found("model.dtype_or_weights_changed", *split) is None


def test_a_drafter_that_is_loaded_beside_it_weighs_nothing():
    def loads(*gib):
        lines = [signal("mem.weights", f"Load weight end. mem usage={g} GB", "INFO", usage=str(g)) for g in gib]
        return snapshot("sglang", settings={"model.path": "/models/big"}, signals=lines)

    assert found("model.dtype_or_weights_changed", loads(57.1), loads(57.1, 0.8)) is None
