"""model.dtype_or_weights_changed: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dflash_doctor.model import Setting
from tests.rules.build import found, snapshot


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
