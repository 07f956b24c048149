"""One parser per source. Each module says what it READS (file names of a capture) and how to `parse` its text."""

from __future__ import annotations

from typing import Protocol

from dflash_doctor.model import Facts
from dflash_doctor.parsers import (
    capture_yaml,
    cmdline,
    dmesg,
    environ,
    gpu,
    host,
    logs,
    model_config,
    nccl,
    nvidia_smi,
    packages,
    server_info,
    topology,
)


class Parser(Protocol):
    """Two names make a parser."""

    READS: tuple[str, ...]

    def parse(self, text: str, source: str) -> Facts:
        """The facts of one file; raises Unreadable."""


ALL: tuple[Parser, ...] = (
    logs,
    cmdline,
    environ,
    packages,
    server_info,
    gpu,
    nvidia_smi,
    topology,
    dmesg,
    nccl,
    host,
    model_config,
    capture_yaml,
)
