"""Versions of packages, from whatever tool listed them."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.model import Unreadable
from dflash_doctor.parsers import packages


def read(text: str) -> dict:
    return dict(packages.parse(text, "packages.txt").packages)


FREEZE = "flash_attn==2.8.3\nflashinfer-python==0.6.8\ntorch==2.11.0+cu130\nvllm==0.20.1\n"
TABLE = """Package           Version       Editable project location
----------------- ------------- -------------------------
Flash-Attn        2.8.3
flashinfer.python 0.6.8
torch             2.11.0+cu130
vllm              0.20.1        /src/vllm
"""
JSON = (
    '[{"name": "flash-attn", "version": "2.8.3"}, {"name": "flashinfer-python", "version": "0.6.8"}, '
    '{"name": "torch", "version": "2.11.0+cu130"}, {"name": "vllm", "version": "0.20.1"}]'
)
CONDA = """# packages in environment at /opt/conda:
#
# Name                    Version                   Build  Channel
flash-attn                2.8.3                    pypi_0    pypi
flashinfer-python         0.6.8                    pypi_0    pypi
torch                     2.11.0+cu130             pypi_0    pypi
vllm                      0.20.1                   pypi_0    pypi
"""


@pytest.mark.parametrize("text", [FREEZE, TABLE, JSON, CONDA, FREEZE.replace("\n", "\r\n")])
def test_every_form_says_the_same(text):
    assert read(text) == {
        "flash-attn": "2.8.3", "flashinfer-python": "0.6.8", "torch": "2.11.0+cu130", "vllm": "0.20.1",
    }  # fmt: skip


def test_a_package_from_a_repository_has_its_address_as_version():
    found = read(
        "sglang @ git+https://github.com/sgl-project/sglang.git@163b97012\n"
        "-e git+https://github.com/vllm-project/vllm.git@4a1e6c0d2#egg=vllm\n"
        "sgl-kernel @ https://x.lan/whl/sgl_kernel-0.3.21%2Bcu130-cp310-abi3-linux_x86_64.whl#sha256=0a\n"
        'triton==3.6.0 ; platform_system == "Linux"\n'
    )
    assert found["sglang"].endswith("@163b97012") and found["vllm"].endswith("@4a1e6c0d2")
    assert (found["sgl-kernel"], found["triton"]) == ("0.3.21+cu130", "3.6.0")


@pytest.mark.parametrize(
    ("text", "why"), [("", "empty"), ("\x01\x02" * 99, "binary"), ("pip: command not found", "no package")]
)
def test_what_lists_no_package_is_unreadable(text, why):
    with pytest.raises(Unreadable, match=why):
        read(text)


@given(
    st.text(max_size=300)
    | st.lists(
        st.sampled_from(["torch", "==", "1.0", " @ ", "-e ", "#egg=", "[", "]", "\n", "{", '"']), max_size=30
    ).map("".join)
)
def test_any_text_is_read_or_unreadable(text):
    with suppress(Unreadable):
        read(text)


@pytest.mark.parametrize("piece", ["a", "a.", "a[", "a @ ", "-e x#", "1 ", "torch 1.0\n", "[", "a==1\n"])
def test_a_long_text_is_read_in_one_pass(piece):
    began = time.perf_counter()
    with suppress(Unreadable):
        read(piece * (500_000 // len(piece)))
    assert time.perf_counter() - began < 4
