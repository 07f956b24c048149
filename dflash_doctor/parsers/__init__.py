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
    load_json,
    load_txt,
    load_yaml,
    logs,
    model_config,
    nccl,
    nvidia_smi,
    packages,
    prom,
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
    prom,
    load_json,
    load_yaml,
    load_txt,
    capture_yaml,
)
