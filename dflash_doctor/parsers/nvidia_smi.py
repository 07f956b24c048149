"""What `nvidia-smi` printed, in any of its forms: -q -x, -q, the plain table, -L, --query-gpu=… --format=csv.

    |   0  NVIDIA RTX A6000               On  |   00000000:41:00.0 Off |                  Off |
    | 34%   71C    P2             262W /  300W |   41210MiB / 49140MiB |     97%      Default |

One reading stands for one card at the moment of the print; whether there was load it does not say, so `load` stays
unknown. Keys and units are those of gpu.json: a pasted table and our own samples are one language. The file name says
little about the form (people redirect what they have), so the text decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dflash_doctor.model import Facts, Gap, Unreadable
from dflash_doctor.parsers import smi_csv, smi_query, smi_table
from dflash_doctor.parsers.card_values import gaps_of
from dflash_doctor.parsers.texts import refuse_binary

READS: tuple[str, ...] = ("nvidia-smi.xml", "nvidia-smi.txt", "nvidia-smi.csv")

# NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. …
# Failed to initialize NVML: Driver/library version mismatch
# No devices were found
# Unable to determine the device handle for GPU0000:41:00.0: GPU is lost.  Reboot the system to recover this GPU
REFUSED = re.compile(
    r"(?:NVIDIA-SMI has failed|Failed to initialize NVML|No devices were found|Unable to determine the device handle)"
    r".{0,200}"
)


def parse(text: str, source: str) -> Facts:
    """The readings of one print. Raises Unreadable when no card is in it."""
    refuse_binary(text, "output of nvidia-smi")
    facts = _joined(read(text, source) for read in (smi_query.xml, smi_query.log, smi_table.table, smi_table.listed))
    if not facts.readings:
        facts = _joined([facts, smi_csv.rows(text, source)])
    refused = REFUSED.search(text[:1_000_000])
    if not facts.readings and not facts.host:
        raise Unreadable(_why(refused[0] if refused else "", text))
    said = (Gap(source, " ".join(refused[0].split())),) if refused else ()
    gaps = (*facts.gaps, *said, *gaps_of(((r.index, r.values) for r in facts.readings), source))
    return Facts(readings=facts.readings, host=facts.host, gaps=gaps)


def _why(refused: str, text: str) -> str:
    if refused:
        return f"nvidia-smi said: {' '.join(refused.split())}"
    if text.count(",") > text.count("\n"):
        return "no line names the columns: query it again without noheader"
    return "no GPU in it: not a form of nvidia-smi's output, or cut before the first card"


def _joined(parts: Iterable[Facts]) -> Facts:
    parts = tuple(parts)
    return Facts(
        readings=tuple(r for p in parts for r in p.readings),
        host={k: v for p in reversed(parts) for k, v in p.host.items()},
        gaps=tuple(g for p in parts for g in p.gaps),
    )
