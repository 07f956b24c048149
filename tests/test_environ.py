"""An environment is read in whatever form it was written down; what does not tune is left out."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.model import Unreadable
from dflash_doctor.parsers import environ


def variables(text: str) -> dict:
    return {s.key.removeprefix("env."): s.value for s in environ.parse(text, "environ").settings}


EXPECTED = {"NCCL_P2P_DISABLE": "1", "CUDA_VISIBLE_DEVICES": "0,1", "VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_P2P_DISABLE=1\nCUDA_VISIBLE_DEVICES=0,1\nVLLM_ATTENTION_BACKEND=FLASH_ATTN\nHOME=/root\n",
        "NCCL_P2P_DISABLE=1\r\nCUDA_VISIBLE_DEVICES=0,1\r\nVLLM_ATTENTION_BACKEND=FLASH_ATTN\r\n",
        "NCCL_P2P_DISABLE=1\0CUDA_VISIBLE_DEVICES=0,1\0VLLM_ATTENTION_BACKEND=FLASH_ATTN\0PATH=/bin\0",
        "export NCCL_P2P_DISABLE=1\nexport CUDA_VISIBLE_DEVICES='0,1'\nexport VLLM_ATTENTION_BACKEND=FLASH_ATTN",
        'declare -x NCCL_P2P_DISABLE="1"\ndeclare -x CUDA_VISIBLE_DEVICES="0,1"\n'
        'declare -x VLLM_ATTENTION_BACKEND="FLASH_ATTN"',
        "  - NCCL_P2P_DISABLE=1\n  - CUDA_VISIBLE_DEVICES=0,1\n  - VLLM_ATTENTION_BACKEND=FLASH_ATTN\n",
        'NCCL_P2P_DISABLE: "1"\nCUDA_VISIBLE_DEVICES: "0,1"\nVLLM_ATTENTION_BACKEND: FLASH_ATTN\n',
        '["NCCL_P2P_DISABLE=1", "CUDA_VISIBLE_DEVICES=0,1", "VLLM_ATTENTION_BACKEND=FLASH_ATTN", "PATH=/bin"]',
        '{"NCCL_P2P_DISABLE": "1", "CUDA_VISIBLE_DEVICES": "0,1", "VLLM_ATTENTION_BACKEND": "FLASH_ATTN"}',
    ],
    ids=["lines", "crlf", "nul", "export", "declare", "compose list", "compose map", "inspect", "json"],
)
def test_every_form_says_the_same(text):
    assert variables(text) == EXPECTED


def test_a_variable_alone_does_not_choose_a_backend():
    # whether VLLM_ATTENTION_BACKEND still acts depends on the release, which this file does not know
    assert all(s.key.startswith("env.") for s in environ.parse("VLLM_ATTENTION_BACKEND=FLASHINFER", "environ").settings)


def test_each_variable_has_its_line_as_evidence():
    (found,) = environ.parse("HOME=/root\nNCCL_DEBUG=INFO\n", "environ").settings
    assert (found.evidence.text, found.evidence.line, found.said) == ("NCCL_DEBUG=INFO", 2, "asked")


def test_values_may_hold_equal_signs_and_colons():
    text = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb=512"
    assert variables(text)["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True,max_split_size_mb=512"


def test_secrets_and_addresses_are_left_out():
    assert variables("VLLM_API_KEY=sk\nHF_TOKEN=hf\nVLLM_HOST_IP=10.0.0.1\nOMP_NUM_THREADS=8") == {
        "OMP_NUM_THREADS": "8"
    }


def test_an_environment_that_tunes_nothing_is_read_all_the_same():
    assert environ.parse("HOME=/root\n", "environ").settings == ()


@pytest.mark.parametrize(("text", "why"), [("", "empty"), ("\x01\x02" * 99, "binary"), ("hello world", "NAME=value")])
def test_what_is_no_environment_is_unreadable(text, why):
    with pytest.raises(Unreadable, match=why):
        environ.parse(text, "environ")


def test_strange_lines_are_counted():
    (gap,) = environ.parse("NCCL_DEBUG=INFO\n???\n", "environ").gaps
    assert gap.why.startswith("1 lines")


@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from(["A=1", "=", ":", "\n", "\0", "export ", "[", "{", '"', "- "]), max_size=30).map("".join)
)
def test_any_text_is_read_or_unreadable(text):
    with suppress(Unreadable):
        environ.parse(text, "environ")


@pytest.mark.parametrize("piece", ["A", "A=", " ", "export ", "A=1\n", "- ", "[", "{", '"'])
def test_a_long_text_is_read_in_one_pass(piece):
    began = time.perf_counter()
    with suppress(Unreadable):
        environ.parse(piece * (500_000 // len(piece)), "environ")
    assert time.perf_counter() - began < 4
