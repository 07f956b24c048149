"""States of made-up hosts: what their GPUs are, as gpu.json should show it. One JSON file of states/ is one host.

    {"says": "for people", "driver_version": "580.95.05", "cuda_version": "13.0",
     "each": {values of every card}, "gpus": [{what differs}, …],
     "init": {"error": "…"}                  the library does not start
     "returns": {"nvmlDevice…": "…"}         this function fails so on every card, whatever the state holds
     "hangs": "nvmlDevice…"                  this function does not come back
     "path": {"all": "SYS", "0-1": "PIX"}    how cards reach each other over PCIe
     "peers": {"all": "OK"}                  whether they may read each other's memory, in the words of `topo -p2p r`
     "smi": {…}}                             what is peculiar to its nvidia-smi (nvidia_smi.py)

A value that is null or not there is not supported, {"error": words} is a read that fails; a card that has an `error`
itself gives no handle. `nvml` holds what only NVML tells; its `nvlink` may be written short: {"links": 4, …values of
every link…, "odd": {"2": {what differs}}}.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NAMES = tuple(sorted(p.stem for p in (HERE / "states").glob("*.json")))


def state(name: str) -> dict[str, Any]:
    """One state with every card written out."""
    short = json.loads((HERE / "states" / f"{name}.json").read_text(encoding="utf-8"))
    each = short.pop("each", {})
    short["gpus"] = [_card(i, each, own, short) for i, own in enumerate(short.get("gpus", ()))]
    return short


def _card(index: int, each: dict[str, Any], own: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    if "error" in own:
        return {"index": index, **own}
    nvml = {**each.get("nvml", {}), **own.get("nvml", {})}
    if isinstance(nvml.get("nvlink"), dict) and "links" in nvml["nvlink"]:
        nvml["nvlink"] = _links(nvml["nvlink"])
    return {"index": index, "driver_version": whole["driver_version"], **each, **own, "nvml": nvml}


def _links(short: dict[str, Any]) -> list[dict[str, Any]]:
    odd = short.get("odd", {})
    each = {k: v for k, v in short.items() if k not in ("links", "odd")}
    return [{"link": n, **each, **odd.get(str(n), {})} for n in range(short["links"])]


def lay(name: str | dict[str, Any], path: Path) -> Path:
    """Write a state where the library and nvidia-smi look for it; at once, so that nobody reads half of it."""
    made = state(name) if isinstance(name, str) else name
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(made), encoding="utf-8")
    os.replace(fresh, path)
    return path
