"""NCCL's own words: which way the GPUs talk, which library and variables it obeys, and what nccl-tests measured."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_doctor.model import Unreadable
from dflash_doctor.parsers import nccl
from tests.reading import facts_or_reason

TWO_TRAYS = """\
node-a:1201:1201 [0] NCCL INFO NCCL_CUMEM_ENABLE set by environment to 0.
node-a:1201:1201 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
node-a:1201:1460 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
node-a:1201:1460 [0] NCCL INFO Using network IB
node-a:1201:1460 [0] NCCL INFO comm 0xb4a1c9e0 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0
node-a:1201:1460 [0] NCCL INFO Channel 00/08 : 0 1 2 3 4 5 6 7
node-a:1201:1460 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC
node-a:1201:1460 [0] NCCL INFO Channel 00/0 : 7[3] -> 0[0] [receive] via NET/IB/0/GDRDMA
node-a:1204:1463 [3] NCCL INFO Channel 00/0 : 3[3] -> 4[0] [send] via NET/IB/1(3)/GDRDMA
node-a:1201:1460 [0] NCCL INFO Connected all rings
"""
TESTS = """\
# nThread 1 nGpus 8 minBytes 1048576 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20
#  Rank  0 Group  0 Pid   3311 on     host-0 device  0 [0x01] NVIDIA A40
NCCL version 2.16.2+cuda11.2
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1   4283.4    0.24    0.43      0   4266.3    0.25    0.43      0
   134217728      33554432     float     sum      -1   230276    0.58    1.02      0   229358    0.59    1.02      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.80332
"""


def parse(text):
    return nccl.parse(text, "nccl.log")


def only(text):
    (signal,) = parse(f"node-a:1:2 [0] NCCL INFO {text}\n").signals
    return signal


@pytest.mark.parametrize("row", nccl.yaml.safe_load(nccl.paths.data("nccl_signals.yaml").read_text())["signals"],
                         ids=lambda r: r["id"])  # fmt: skip
def test_every_pattern_reads_its_own_example(row):
    signal = only(row["example"])
    assert (signal.id, signal.level, signal.topics) == (row["id"], row["level"], tuple(row["topics"]))


def test_channels_are_counted_by_the_way_they_take_not_by_the_adapter():
    assert parse(TWO_TRAYS).host == {"nccl_transports": {"P2P/IPC": 1, "NET/IB/GDRDMA": 2}, "nccl_channels": 8}


def test_each_way_is_one_signal_with_all_who_said_so():
    net = next(s for s in parse(TWO_TRAYS).signals if s.template == "via NET/IB/GDRDMA")
    assert (net.count, net.ranks, net.last_line) == (2, ("GPU 0", "GPU 3"), 9)


def test_a_variable_that_nccl_obeys_is_in_effect():
    (setting,) = parse(TWO_TRAYS).settings
    assert (setting.key, setting.value, setting.said) == ("env.NCCL_CUMEM_ENABLE", "0", "effective")
    assert setting.evidence.line == 1


def test_a_group_over_two_hosts_without_the_common_fabric_says_so():
    signal = next(s for s in parse(TWO_TRAYS).signals if s.id == "nccl.communicator")
    assert (signal.fields["ranks"], signal.fields["nodes"], signal.fields["mnnvl"]) == ("8", "2", "0")


def test_small_talk_is_left_out():
    assert not any("Bootstrap" in s.evidence.text for s in parse(TWO_TRAYS).signals)


def test_a_warning_nobody_knows_is_kept():
    (signal,) = parse(
        "node-a:1:2 [0] transport/p2p.cc:270 NCCL WARN Cuda failure 'peer access is not supported'\n"
    ).signals
    assert (signal.id, signal.level) == ("nccl.warning", "WARNING")
    assert signal.fields["said"] == "Cuda failure 'peer access is not supported'"


def test_a_date_before_the_prefix_is_no_hindrance():
    (signal,) = parse("[2026-04-22 09:10:00] node-a:1:2 [7] NCCL INFO Using network Socket\n").signals
    assert (signal.fields["network"], signal.ranks) == ("Socket", ("GPU 7",))


def test_peer_to_peer_switched_off_is_a_warning_though_nccl_whispers_it():
    signal = only("P2P is disabled between connected GPUs 1 and 0. You can repress this message with …")
    assert (signal.level, signal.topics) == ("WARNING", ("p2p_topology",))


def test_measured_bandwidths_are_kept_by_message_size():
    facts = parse(TESTS)
    assert [(r["size"], r["busbw"]) for r in facts.host["nccl_tests"]] == [(1048576, 0.43), (134217728, 1.02)]
    assert facts.host["nccl_tests_busbw"] == 0.80332


def test_the_library_that_was_loaded_is_in_effect():
    (setting,) = parse(TESTS).settings
    assert (setting.key, setting.value, setting.said) == ("comm.nccl_version", "2.16.2", "effective")


def test_an_engine_that_only_speaks_of_nccl_is_not_nccl():
    with pytest.raises(Unreadable, match="NCCL_DEBUG=INFO"):
        parse("INFO 05-21 21:31:45 [pynccl.py:70] vLLM is using nccl==2.27.5\nINFO … NCCL is great\n")


@pytest.mark.parametrize(
    "line",
    [
        "a" * 500_000 + " NCCL",
        "a:1:" * 200_000 + " NCCL INFO",
        "NCCL INFO " * 90_000,
        "1 " * 400_000,
        "a.b-" * 200_000 + ":1:1 [0] NCCL",
    ],
)
def test_hostile_lines_are_read_in_linear_time(line):
    begun = time.monotonic()
    facts_or_reason(nccl.parse, line, "nccl.log")
    facts_or_reason(nccl.parse, "\n".join([line[:2000]] * 300), "nccl.log")
    assert time.monotonic() - begun < 3


@given(st.text(), st.integers(0, 900))
def test_any_text_gives_facts_or_a_reason(text, cut):
    facts_or_reason(nccl.parse, text, "nccl.log")
    facts_or_reason(nccl.parse, (TWO_TRAYS + TESTS)[:cut] + text, "nccl.log")
