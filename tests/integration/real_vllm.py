"""A real vLLM on the CPU, with tiny models made here: nothing is downloaded but packages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

HERE = Path(__file__).parent
READY_S = 240  # a start takes 40 to 60 s on two quiet cores


def venv() -> Path | None:
    """The virtual environment that has vLLM, named by the variable DFLASH_DOCTOR_VLLM; None without one."""
    named = os.environ.get("DFLASH_DOCTOR_VLLM")
    return Path(named) if named and (Path(named) / "bin" / "vllm").exists() else None


def make_models(folder: Path) -> Path:
    """Targets and drafters of the `small` size, in seconds."""
    python = venv() / "bin" / "python"
    subprocess.run([python, HERE / "make_tiny_model.py", folder, "--size", "small"], check=True, capture_output=True)
    return folder


def dflash(models: Path, drafter: str, tokens: int = 7) -> dict[str, object]:
    """Speculation by a DFlash drafter."""
    return {"method": "dflash", "model": str(models / drafter), "num_speculative_tokens": tokens}


@contextmanager
def serving(
    models: Path,
    speculation: dict[str, object] | None,
    port: int,
    log: Path,
) -> Iterator[subprocess.Popen[bytes]]:
    """`vllm serve` of target_repeat, ready to answer; stopped at the end."""
    argv = [
        str(venv() / "bin" / "vllm"), "serve", str(models / "target_repeat"), "--dtype", "float32",
        "--served-model-name", "small", "--host", "127.0.0.1", "--port", str(port), "--max-model-len", "2048",
        "--enforce-eager", *(["--speculative-config", json.dumps(speculation)] if speculation else []),
    ]  # fmt: skip
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("VIRTUAL_ENV", "PYTHON"))},
        "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "0-1",
    }  # fmt: skip
    with log.open("wb") as out:
        server = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, env=env, start_new_session=True)
    try:
        _wait(server, port, log)
        yield server
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", timeout=2, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(1)
    sys.stderr.write(log.read_text(errors="replace")[-3000:])
    raise AssertionError("vLLM did not come up")
