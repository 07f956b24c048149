"""Hardware is part of a setup: what the other side's cards do not have is said, with what takes its place."""

from __future__ import annotations

import pytest
from porting import on, row, sglang, shell, vllm

from dflash_doctor.port import port

H100, B200 = "NVIDIA H100 80GB HBM3", "NVIDIA B200"
PRO6000, GB10, A6000, ADA = "rtxpro6000-server", "NVIDIA GB10", "NVIDIA RTX A6000", "NVIDIA RTX 6000 Ada Generation"
DRAFTS = "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"  # noqa: E501


@pytest.mark.parametrize(
    ("card", "backend"),
    [(H100, "fa3"), (A6000, "fa3"), (B200, "trtllm_mha"), (PRO6000, "flashinfer"), (GB10, "flashinfer")],
)
def test_flash_attention_3_stays_where_sglang_has_it_and_is_replaced_elsewhere(card, backend):
    p = port(sglang("--attention-backend fa3", gpu=H100), "sglang", "0.5.23", gpu=card)
    assert f"--attention-backend {backend}" in shell(p)
    assert (row(p, "attention.backend").status == "risky") is (backend != "fa3")


@pytest.mark.parametrize(("card", "kept"), [(H100, True), (A6000, False), (PRO6000, False), (GB10, False)])
def test_vllm_has_flash_attention_3_on_hopper_only(card, kept):
    p = port(sglang("--attention-backend fa3", gpu=H100), "vllm", "0.33.0", gpu=card)
    assert "--attention-backend FLASH_ATTN" in shell(p)
    assert ('"flash_attn_version": 3' in shell(p)) is kept
    assert ("Hopper" in row(p, "attention.backend").why) is not kept


def test_from_h100_to_gb10_says_what_is_not_there():
    tuned = sglang(
        "--tp 1 --attention-backend fa3 --kv-cache-dtype fp8_e4m3 --enable-nccl-nvls --moe-runner-backend deep_gemm "
        "--model-path /models/Qwen3-30B-A3B-FP8", gpu=H100,
    )  # fmt: skip
    p = port(tuned, "vllm", "0.33.0", gpu=GB10)
    assert p.notes[0] == (
        "from NVIDIA H100 80GB HBM3 to NVIDIA GB10: memory is shared with the host, so a fraction is of all of it"
    )
    gone = {r.key for r in p.rows if "GB10" in r.why}
    assert gone == {"attention.backend", "comm.nvls", "moe.backend"}


def test_four_cards_without_nvlink_have_no_custom_all_reduce():
    tuned = on(sglang("--tp 4"), H100, 4)
    p = port(tuned, "vllm", "0.33.0", gpu=PRO6000)
    found = row(p, "comm.custom_allreduce")
    assert found.status == "risky" and "no NVLink" in found.why
    assert "VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC=1" in found.why
    assert "PCIE_IPC" not in row(port(tuned, "vllm", "0.20.1", gpu=PRO6000), "comm.custom_allreduce").why


def test_two_cards_without_nvlink_keep_it():
    p = port(on(sglang("--tp 2"), H100, 2), "vllm", "0.33.0", gpu=PRO6000)
    assert not [r for r in p.rows if r.key == "comm.custom_allreduce"]


def test_what_did_not_run_on_the_tuned_cards_either_is_no_news():
    p = port(on(sglang("--tp 4"), ADA, 4), "vllm", "0.33.0", gpu=PRO6000)
    assert not [r for r in p.rows if r.key == "comm.custom_allreduce"]


@pytest.mark.parametrize("card", [H100, A6000, ADA])
def test_fp4_weights_run_before_blackwell_but_unpacked(card):
    p = port(sglang("--quantization modelopt_fp4", gpu=B200), "vllm", "0.33.0", gpu=card)
    found = row(p, "model.quantization")
    assert "--quantization modelopt_fp4" in shell(p)
    assert found.status == "risky" and "no FP4 units" in found.why


def test_nvlink_sharp_needs_nvswitch():
    tuned = sglang("--tp 8 --enable-nccl-nvls", gpu=H100)
    assert row(port(tuned, "vllm", gpu="NVIDIA H200"), "comm.nvls").status == "carried over"
    assert row(port(tuned, "vllm", gpu=ADA), "comm.nvls").status == "no equivalent"


@pytest.mark.parametrize(
    ("card", "version", "backend"),
    [
        (A6000, "0.20.1", "FLASH_ATTN"),
        (A6000, "0.33.0", "FLASHINFER"),
        (H100, "0.27.1", "FLASH_ATTN"),
        (PRO6000, "0.20.1", "FLASH_ATTN"),
        (PRO6000, "0.29.0", "FLASHINFER"),
        (B200, "0.20.1", "FLASHINFER"),
    ],
)
def test_flashinfer_that_cannot_verify_drafts_in_full_graphs_gives_way(card, version, backend):
    p = port(sglang(f"--attention-backend flashinfer {DRAFTS}"), "vllm", version, gpu=card)
    assert f"--attention-backend {backend}" in shell(p)


def test_without_drafts_flashinfer_stays():
    p = port(sglang("--attention-backend flashinfer"), "vllm", "0.20.1", gpu=A6000)
    assert "--attention-backend FLASHINFER" in shell(p)


def test_cards_that_nobody_named_change_nothing():
    p = port(sglang("--attention-backend fa3 --enable-nccl-nvls"), "vllm", "0.33.0")
    assert not p.notes and '"flash_attn_version": 3' in shell(p) and "NCCL_NVLS_ENABLE=1" in shell(p)


def test_the_cards_of_the_other_side_are_read_from_its_capture():
    p = port(sglang("--attention-backend fa3", gpu=H100), "vllm", against=vllm("", gpu=A6000))
    assert p.notes[0] == "from NVIDIA H100 80GB HBM3 to NVIDIA RTX A6000"


def test_cards_of_another_maker_are_left_to_the_engine():
    p = port(sglang("--attention-backend fa3"), "vllm", gpu="AMD Instinct MI300X")
    assert "--attention-backend FLASH_ATTN" in shell(p)
