"""The matrix of a host's cards: how near they are, and which may read each other's memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.model import Unreadable
from dflash_doctor.parsers import topology
from tests.reading import facts_or_reason

NVLINK_PAIR = """\
        \x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV4\tPHB\t0-23\t0\t\tN/A
GPU1\tNV4\t X \tSYS\t24-47\t1\t\tN/A
NIC0\tPHB\tSYS\t X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NV#  = Connection traversing a bonded set of # NVLinks
"""
OLD_WITH_ADAPTERS = """\
        GPU0    GPU1    GPU2    mlx5_0  CPU Affinity    NUMA Affinity
GPU0     X      NV4     SOC     SYS     12-15,44-47     3
GPU1    NV4      X      SYS     SYS     8-11,40-43      2
GPU2    SYS     SYS      X      PHB     4-7,36-39       1
mlx5_0  SYS     SYS     PHB      X
"""
PEERS = """\
 \tGPU0\tGPU1\tGPU2\t
 GPU0\tX\tOK\tCNS\t
 GPU1\tOK\tX\tGNS\t
 GPU2\tCNS\tGNS\tX\t

Legend:
  X    = Self
  OK   = Status Ok
  CNS  = Chipset not supported
"""


def parse(text):
    return topology.parse(text, "topology.txt")


def test_a_pair_joined_by_nvlink_is_seen_once():
    assert parse(NVLINK_PAIR).links == {(0, 1): "NV4"}


def test_each_card_has_its_cores_and_its_node():
    host = parse(NVLINK_PAIR).host
    assert host["gpu_cpu_affinity"] == {0: "0-23", 1: "24-47"}
    assert host["gpu_numa"] == {0: 0, 1: 1}


def test_network_adapters_are_not_cards_and_old_words_are_read():
    facts = parse(OLD_WITH_ADAPTERS)
    assert facts.links == {(0, 1): "NV4", (0, 2): "SYS", (1, 2): "SYS"}
    assert facts.host["gpu_cpu_affinity"][0] == "12-15,44-47"
    assert facts.gaps == ()


def test_peer_access_is_told_for_each_pair():
    facts = parse(PEERS)
    assert facts.host["p2p"] == {"0-1": "OK", "0-2": "CNS", "1-2": "GNS"}
    assert facts.links == {}


def test_what_one_matrix_refuses_the_next_does_not_allow():
    text = PEERS + PEERS.replace("CNS", "OK")
    assert parse(text).host["p2p"]["0-2"] == "CNS"


def test_both_matrices_may_stand_in_one_file():
    facts = parse(NVLINK_PAIR + "\n" + PEERS)
    assert facts.links[0, 1] == "NV4"
    assert facts.host["p2p"]["0-1"] == "OK"


def test_a_single_card_has_no_links_and_that_is_no_gap():
    facts = parse(
        "        GPU0    CPU Affinity    NUMA Affinity   GPU NUMA ID\nGPU0     X      0-19    0               N/A\n"
    )
    assert facts.links == {}
    assert facts.gaps == ()
    assert facts.host["gpu_numa"] == {0: 0}


def test_not_known_is_not_zero():
    facts = parse(NVLINK_PAIR.replace("0-23\t0", "N/A\tN/A"))
    assert 0 not in facts.host["gpu_cpu_affinity"]
    assert 0 not in facts.host["gpu_numa"]


def test_a_matrix_cut_off_is_a_gap():
    facts = parse(OLD_WITH_ADAPTERS[: OLD_WITH_ADAPTERS.index("GPU1    NV4") + 14])
    assert facts.links == {(0, 1): "NV4", (0, 2): "SYS"}
    assert facts.gaps[0].what == "topology.txt: links of GPU 1"


@pytest.mark.parametrize("text", ["hello", "GPU0 GPU1\n", "nvidia-smi: command not found"])
def test_what_is_no_matrix_is_refused_in_words(text):
    with pytest.raises(Unreadable, match="topo -m"):
        parse(text)


@given(st.text(alphabet=st.sampled_from("GPU01 X\tNV4SY\nCPU-,K"), max_size=200))
def test_any_text_gives_facts_or_a_reason(text):
    facts_or_reason(topology.parse, text, "topology.txt")
    facts_or_reason(topology.parse, NVLINK_PAIR + text, "topology.txt")
