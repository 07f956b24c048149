"""topology.txt: how the cards of a host reach each other, as `nvidia-smi topo -m` and `topo -p2p r` print it.

            GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
    GPU0     X      NV4     PHB     0-23            0               N/A
    GPU1    NV4      X      SYS     24-47           1               N/A

One link stands for a pair of cards, nearest first: NV<number of NVLinks>, PIX, PXB, PHB, NODE, SYS. In the peer-to-peer
matrix the words are OK, or why not: CNS (chipset), GNS (GPU), TNS (topology), DR (switched off), NS, U (unknown).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dflash_doctor.model import Facts, Gap, Unreadable
from dflash_doctor.parsers.texts import refuse_binary

READS: tuple[str, ...] = ("topology.txt",)

LONGEST = 4000  # characters of a line; sixteen cards and sixteen adapters are under five hundred
# the head is underlined in a terminal
COLOUR = re.compile(r"\x1b\[[\d;]{0,20}[A-Za-z]")
GPU = re.compile(r"GPU(\d{1,3})")
LINK = re.compile(r"NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|C2C")  # SOC: drivers before 384 said so for SYS
PEER = re.compile(r"OK|CNS|GNS|TNS|NS|DR|U")
CORES = re.compile(r"\d[\d,-]{0,2000}")
HEAD_END = ("CPU", "NUMA")  # "CPU Affinity", "NUMA Affinity": the columns after the devices
ALIKE = {"SOC": "SYS"}


@dataclass
class Seen:
    """What the matrices said so far."""

    links: dict[tuple[int, int], str] = field(default_factory=dict)
    peers: dict[str, str] = field(default_factory=dict)
    cores: dict[int, str] = field(default_factory=dict)
    nodes: dict[int, int] = field(default_factory=dict)
    cut: set[int] = field(default_factory=set)  # cards whose row breaks off


def parse(text: str, source: str) -> Facts:
    """Links, peer access and the cores near each card. Raises Unreadable when there is no matrix."""
    refuse_binary(text, "a topology matrix")
    seen = Seen()
    devices: list[str] = []
    rows = 0
    for line in text.splitlines():
        words = COLOUR.sub("", line[:LONGEST]).split()
        head = _head(words)
        if head:
            devices = head
        elif devices and words and (gpu := GPU.fullmatch(words[0])):
            rows += 1
            _row(seen, int(gpu[1]), words[1:], devices)
    if not rows:
        raise Unreadable("no matrix of GPUs in it; `nvidia-smi topo -m` prints one")
    missing = sorted({int(g[1]) for d in devices if (g := GPU.fullmatch(d))} - {i for pair in seen.links for i in pair})
    gaps = []
    if seen.cut or (missing and len(devices) > 1 and not seen.peers):
        who = ", ".join(map(str, sorted({*seen.cut, *missing})))
        gaps.append(Gap(f"{source}: links of GPU {who}", "the matrix is cut off"))
    host: dict[str, Any] = {"gpu_cpu_affinity": seen.cores, "gpu_numa": seen.nodes, "p2p": seen.peers}
    return Facts(links=seen.links, host={k: v for k, v in host.items() if v}, gaps=tuple(gaps))


def _head(words: list[str]) -> list[str]:
    """The devices a head line names; empty when it is none. A row begins like a head, but goes on with links."""
    if not words or not GPU.fullmatch(words[0]):
        return []
    devices = list(_until_cores(words))
    return (
        devices
        if len(words) == 1 or not (LINK.fullmatch(words[1]) or PEER.fullmatch(words[1]) or words[1] == "X")
        else []
    )


def _until_cores(words: list[str]) -> Iterator[str]:
    for word in words:
        if word in HEAD_END:
            return
        yield word


def _row(seen: Seen, gpu: int, words: list[str], devices: list[str]) -> None:
    """One line of a matrix: a word for every device, then cores and node where the matrix has them."""
    for device, word in zip(devices, words, strict=False):
        other = GPU.fullmatch(device)
        if other is None or int(other[1]) == gpu:
            continue
        low, high = sorted((gpu, int(other[1])))
        if LINK.fullmatch(word):
            seen.links[low, high] = ALIKE.get(word, word)
        elif PEER.fullmatch(word) and seen.peers.get(f"{low}-{high}", "OK") == "OK":
            # several matrices (read, write, atomics) may follow each other: what is refused once counts
            seen.peers[f"{low}-{high}"] = word
    if len(words) < len(devices):
        seen.cut.add(gpu)
        return
    beside = words[len(devices) :]
    if beside and CORES.fullmatch(beside[0]):
        seen.cores[gpu] = beside[0]
    if len(beside) > 1 and beside[1].isdigit() and len(beside[1]) < 6:
        seen.nodes[gpu] = int(beside[1])
