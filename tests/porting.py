"""Tuned sides for port tests, from what a person would type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from dflash_doctor import parse
from dflash_doctor.model import Capture, GpuReading, Snapshot
from dflash_doctor.port import Ported, Row, written

RECIPES = sorted((Path(__file__).parent / "recipes").glob("*.yaml"))


def side(launch: str, package: str, gpu: str | None = None, log: str = "", environ: str = "") -> Snapshot:
    """The snapshot of a server started so; `package` is `sglang==0.5.10`, `gpu` the name of its cards."""
    files = {"cmdline": launch, "packages.txt": package, "server.log": log, "environ": environ}
    snapshot = parse.parse(Capture("tuned", {n: t.encode() for n, t in files.items() if t}))
    return on(snapshot, gpu) if gpu else snapshot


def on(s: Snapshot, gpu: str, cards: int = 1) -> Snapshot:
    """The same on these cards."""
    from dataclasses import replace

    return replace(s, readings=tuple(GpuReading(i, 0.0, True, {"name": gpu}) for i in range(cards)))


def sglang(flags: str, version: str = "0.5.10", **more: Any) -> Snapshot:
    """A tuned SGLang."""
    model = "" if "--model" in flags else "--model-path /models/m "
    return side(f"python3 -m sglang.launch_server {model}{flags}", f"sglang=={version}", **more)


def vllm(flags: str, version: str = "0.20.1", **more: Any) -> Snapshot:
    """A vLLM, tuned or fresh."""
    return side(f"vllm serve /models/m {flags}", f"vllm=={version}", **more)


def recipe(path: Path) -> dict[str, Any]:
    """One file of tests/recipes."""
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def row(p: Ported, key: str) -> Row:
    """The row of one setting."""
    return next(r for r in p.rows if r.key == key)


def shell(p: Ported) -> str:
    """The launch on one line."""
    return " ".join(written(p.launch, "shell").replace("\\\n", " ").split())
