"""Lays a made-up host's library, nvidia-smi and state into a folder, and says which environment finds them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from fake_nvml.states import HERE, lay, state

SOURCES = sorted(HERE.glob("*.c"))
FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-shared", "-fPIC")


def compiler() -> str | None:
    """A C compiler, when this machine has one."""
    return shutil.which("gcc") or shutil.which("cc")


def library(driver: int, folder: Path) -> Path:
    """The folder that holds libnvidia-ml.so.1 as it came with a driver; compiled once."""
    at = folder / f"driver-{driver}"
    made = at / "libnvidia-ml.so.1"
    if not made.exists():
        at.mkdir(parents=True, exist_ok=True)
        fresh = at / f"new-{os.getpid()}-{os.urandom(4).hex()}.so"
        gcc = compiler()
        assert gcc is not None
        subprocess.run([gcc, *FLAGS, f"-DDRIVER={driver}", "-o", fresh, *SOURCES, "-lpthread"], check=True)
        os.replace(fresh, made)
    return at


class MadeUp:
    """One made-up host. `built` is where libraries are kept; `nvml=False` is a host whose library cannot be loaded."""

    def __init__(self, name: str | dict[str, Any], folder: Path, built: Path, nvml: bool = True) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.state = state(name) if isinstance(name, str) else name
        self.path = lay(self.state, folder / "state.json")
        self.commands = folder / "bin"
        self.commands.mkdir(exist_ok=True)
        smi = self.commands / "nvidia-smi"
        smi.write_text(f'#!/bin/sh\nexec "{sys.executable}" -ISB "{HERE}/nvidia_smi.py" "$@"\n')
        smi.chmod(0o755)
        if nvml:
            driver = int(str(self.state["driver_version"]).partition(".")[0])
            self.library = library(driver, built)
        else:
            self.library = folder / "lib"
            self.library.mkdir(exist_ok=True)
            (self.library / "libnvidia-ml.so.1").touch()  # nor is a real one found
        self.environ = {"LD_LIBRARY_PATH": str(self.library), "FAKE_NVML_STATE": str(self.path)}

    def becomes(self, name: str | dict[str, Any]) -> None:
        """The host changes under the feet of whoever looks at it."""
        self.state = state(name) if isinstance(name, str) else name
        lay(self.state, self.path)
