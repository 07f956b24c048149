"""gpu.json: samples of every GPU, before and during load. One reading stands for one card at one moment.

    {"driver_version": "580.142", "samples": [{"t": 0.5, "load": true, "gpus": [
        {"index": 0, "name": "NVIDIA RTX A6000", "clocks.sm": 1785, "power.draw": 262.0, "power.limit": null,
         "temperature.memory": {"error": "Unknown Error"}, "clocks_event_reasons.active": "0x0000000000000004",
         "nvml": {"pcie_replay": 0}, "processes": [{"pid": 2114, "name": "VLLM::EngineCore", "used_memory": 41200}]}]}]}

Written by the collector (CONTRACTS.md §2), and by people by hand: one sample without a list, a bare list of cards
(gpustat's JSON reads the same way), numbers as texts with units, no times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from dflash_doctor.model import Facts, Gap, GpuReading, Unreadable
from dflash_doctor.parsers.card_values import gaps_of, key_of, value_of, with_mask
from dflash_doctor.parsers.documents import read_json

READS: tuple[str, ...] = ("gpu.json",)

NOT_VALUES = ("index", "processes", "nvml", "error")
LOADED = {"true": True, "yes": True, "1": True, "load": True, "loaded": True, "busy": True, "during": True}
IDLE = {"false": False, "no": False, "0": False, "idle": False, "before": False, "after": False}
# what may stand beside the samples -> what it is called among the host's facts
HOST = {
    "driver_version": "driver_version", "driver": "driver_version", "cuda_version": "cuda_version",
    "cuda": "cuda_version", "vbios": "vbios_version", "vbios_version": "vbios_version", "mig_devices": "mig_devices",
    "hostname": "hostname",
}  # fmt: skip


def parse(text: str, source: str) -> Facts:
    """The readings of one gpu.json. Raises Unreadable when it holds no GPU."""
    whole = read_json(text, "a list of GPU samples")
    gaps: list[Gap] = []
    readings = [r for n, sample in enumerate(_samples(whole)) for r in _readings(sample, n, source, gaps)]
    host = _host(whole) | _driver_of(readings)
    if not readings and not gaps:
        raise Unreadable(_why_none(whole))
    gaps += gaps_of(((r.index, r.values) for r in readings), source)
    return Facts(readings=tuple(readings), host=host, gaps=tuple(dict.fromkeys(gaps)))


def _samples(whole: Any) -> Iterator[Mapping[str, Any]]:
    """The samples, however they are wrapped."""
    if isinstance(whole, list):
        cards = [x for x in whole if isinstance(x, Mapping)]
        if any("gpus" in x for x in cards):
            yield from cards
        elif cards:
            yield {"gpus": cards}
    elif isinstance(whole, Mapping):
        rows = whole.get("samples")
        if isinstance(rows, list):
            yield from _samples(rows)
        elif isinstance(rows, Mapping):
            yield rows
        elif "gpus" in whole:
            yield whole
        elif "name" in whole or "index" in whole:
            yield {"gpus": [whole]}


def _readings(sample: Mapping[str, Any], n: int, source: str, gaps: list[Gap]) -> Iterator[GpuReading]:
    cards = sample.get("gpus")
    if isinstance(cards, Mapping) and "error" in cards:
        gaps.append(Gap(source, str(value_of("", cards).why)))
        return
    rows: Iterable[tuple[Any, Any]] = enumerate(cards if isinstance(cards, list) else ())
    if isinstance(cards, Mapping):  # {"0": {…}, "1": {…}}
        rows = cards.items()
    when, load = _time(sample.get("t", sample.get("time", sample.get("timestamp"))), n), _load(sample.get("load"))
    for place, card in rows:
        if not isinstance(card, Mapping):
            gaps.append(Gap(f"{source}: GPU {place}", "its entry holds no values"))
            continue
        index = _index(card.get("index", place))
        if isinstance(card.get("error"), str):  # the card did not answer at all: lost, or fallen off the bus
            gaps.append(Gap(f"{source}: GPU {index}", str(value_of("", card).why)))
        yield GpuReading(index, when, load, _values(card), source)


def _values(card: Mapping[str, Any]) -> dict[str, Any]:
    """The values of one card under their one name; what only NVML knows stands as `nvml.<name>`."""
    values = {key_of(str(k)): v for k, v in card.items() if k not in NOT_VALUES}
    found = {k: value_of(k, v) for k, v in values.items() if not isinstance(v, list)}
    beyond = card.get("nvml")
    for name, value in beyond.items() if isinstance(beyond, Mapping) else ():
        key = f"nvml.{name}"
        found[key] = value if isinstance(value, list) else value_of(key, value)
    if "processes" in card:
        found["processes"] = processes(card["processes"])
    return with_mask(found)


def processes(raw: Any) -> Any:
    """Processes on a card: pid, name and MiB each; None when the source could not see them, a Gap when it failed."""
    if not isinstance(raw, list):
        return value_of("processes", raw)
    return [_process(p) for p in raw if isinstance(p, Mapping)]


def _process(p: Mapping[str, Any]) -> dict[str, Any]:
    pid, name = p.get("pid"), p.get("name") or p.get("process_name") or p.get("command") or ""
    memory = next((p[k] for k in ("used_memory", "used_gpu_memory", "gpu_memory_usage", "memory") if k in p), None)
    rest = {k: v for k, v in p.items() if k not in ("pid", "name", "used_memory") and isinstance(v, (str, int, float))}
    if isinstance(pid, str) and pid.strip().isdigit():
        pid = int(pid.strip()[:18])
    return {**rest, "pid": pid, "name": str(name)[:300], "used_memory": value_of("used_memory", memory)}


def _index(raw: Any) -> int:
    text = str(raw).strip()
    return int(text) if text.isdigit() and len(text) < 6 else 0


def _time(raw: Any, n: int) -> float:
    """Seconds; without a time the order of the samples is all there is."""
    if isinstance(raw, (int, float)) and raw == raw and abs(raw) < 1e15:
        return float(raw)
    if isinstance(raw, str):
        try:
            return float(raw)
        except ValueError:
            pass
        try:
            return datetime.fromisoformat(raw.strip().replace("Z", "+00:00")).timestamp()
        except (ValueError, OverflowError):
            pass
    return float(n)


def _load(raw: Any) -> bool | None:
    return (LOADED | IDLE).get(str(raw).strip().lower())


def _host(whole: Any) -> dict[str, Any]:
    if not isinstance(whole, Mapping):
        return {}
    found: dict[str, Any] = {}
    for name, key in HOST.items():
        value = whole.get(name)
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and str(value).strip():
            found.setdefault(key, str(value).strip()[:300])
        elif key == "mig_devices" and isinstance(value, list) and value:
            found[key] = [str(v)[:300] for v in value if isinstance(v, (str, int, float))]
    return found


def _driver_of(readings: list[GpuReading]) -> dict[str, Any]:
    said = {v for r in readings if isinstance(v := r.values.get("driver_version"), str)}
    return {"driver_version": said.pop()} if len(said) == 1 else {}


def _why_none(whole: Any) -> str:
    if isinstance(whole, Mapping) and isinstance(whole.get("error"), str):
        return f"no GPU was read: {str(whole['error'])[:300]}"
    return 'it holds no GPU samples (expected {"samples": [{"gpus": [{…}]}]})'
