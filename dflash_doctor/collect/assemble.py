"""What a host said -> Capture: gpu.json from its samples, capture.yaml about the visit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, Protocol

import yaml

from dflash_doctor.collect.options import Look
from dflash_doctor.collect.program import hider
from dflash_doctor.model import Capture, Gap, Host


class Said(Protocol):
    """The part of talk.Heard that is needed here."""

    gpus: dict[str, Any]
    samples: list[dict[str, Any]]
    notes: list[str]

    def files(self) -> dict[str, bytes]: ...


def capture(host: Host, began: float, look: Look, about: Mapping[str, Any], said: Said, gaps: Sequence[Gap]) -> Capture:
    """One capture with its capture.yaml."""
    files = {name: data for name, data in said.files().items() if name != "capture.yaml"}
    if said.samples:
        files["gpu.json"] = json.dumps(gpu_json(said.gpus, said.samples), indent=None).encode()
    head: dict[str, Any] = {"host": host.target, "taken_at": stamp(began)}
    if look.chosen is not None:
        head |= {"engine": look.chosen.name, "engine_port": look.chosen.port}
    if len(look.engines) > 1:
        head["engines"] = [{"engine": e.name, "port": e.port, "pid": e.pid} for e in look.engines]
    notes = list(dict.fromkeys(said.notes))
    if notes:
        head["note"] = "; ".join(notes)
    return with_head(Capture(host.target, files, tuple(gaps)), {**head, **about})


def with_head(of: Capture, head: Mapping[str, Any]) -> Capture:
    """The same capture with this capture.yaml, its gaps included."""
    content = {**head, "gaps": [{"what": g.what, "why": g.why} for g in of.gaps]}
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    return replace(of, files={**of.files, "capture.yaml": hider().text(text).encode()})


def gpu_json(about: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Samples in the shape of the capture folder; each is complete, what does not change is copied into it."""
    fixed = {g.get("index"): g for g in about.get("gpus") or () if isinstance(g, dict)}
    rows = []
    for sample in samples:
        gpus = [{**fixed.get(g.get("index"), {}), **g} for g in sample.get("gpus") or () if isinstance(g, dict)]
        rows.append({"t": sample.get("t"), "load": sample.get("load"), "gpus": gpus})
    head = {k: about[k] for k in ("driver_version", "cuda_version", "source", "mig_devices") if about.get(k)}
    return {**head, "samples": rows}


def stamp(seconds: float) -> str:
    """ISO time in UTC, to the second."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
