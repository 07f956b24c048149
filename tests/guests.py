"""The modules that run on a host, imported here as they are there, and made-up hosts for them to look at."""

from __future__ import annotations

import sys
from pathlib import Path

from dflash_doctor import paths

sys.path.insert(0, str(paths.probes()))

from guest import ask, engines, gpu, hide, logs, logtext, machine, model, nvml, ports, smi, visit, wire

__all__ = [
    "SERVER", "ask", "command", "engines", "gpu", "hide", "lay", "logs", "logtext", "machine", "model", "nvml", "ports",
    "smi", "visit", "wire",
]  # fmt: skip

SERVER = "/opt/venv/bin/python\0/opt/venv/bin/vllm\0serve\0Qwen/Qwen3-8B\0--port\x008123\0"


def lay(root: Path, files: dict[str, str]) -> ask.Ground:
    """A made-up host of these files; `-> target` makes a link."""
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text[3:])
        else:
            path.write_text(text)
    return ask.Ground(str(root))


def command(root: Path, name: str, body: str) -> None:
    path = root / "usr" / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)
