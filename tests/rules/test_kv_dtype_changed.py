"""kv.dtype_changed: when it is named, and the nearest case where it is not."""

from __future__ import annotations

from dflash_doctor.model import Setting
from tests.rules.build import found, snapshot


def test_another_kv_dtype_is_named():
    now = snapshot(settings={"kv.dtype": Setting("kv.dtype", "nvfp4", "effective", "--kv-cache-dtype")})
    finding = found("kv.dtype_changed", now, snapshot(settings={"kv.dtype": "fp8_e4m3"}))
    assert finding.summary == "kv.dtype: fp8_e4m3 -> nvfp4: another attention kernel reads the cache"
    assert finding.next_steps == ("put --kv-cache-dtype back to fp8_e4m3",)


def test_the_same_dtype_is_no_change():
    same = snapshot(settings={"kv.dtype": "fp8_e4m3"})
    assert found("kv.dtype_changed", same, same) is None
