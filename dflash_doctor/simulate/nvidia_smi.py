"""The simulated host's `nvidia-smi`: a program of its own, run by the command on the made-up host's PATH.

    nvidia_smi.py FACTS.json BUSY --query-gpu=name,clocks.sm --format=csv,noheader,nounits

FACTS.json holds what the GPUs are, idle and under load; BUSY is a small file the engine rewrites when work begins and
ends: `SECONDS_BUSY_SO_FAR [SINCE]`. Imports the standard library only, and starts fast.
"""

from __future__ import annotations

import json
import math
import sys
import time
from typing import Any

UNITS = (
    ("clocks_event_reasons_counters", "us"), ("clocks", "MHz"), ("power", "W"), ("enforced.power.limit", "W"),
    ("memory", "MiB"), ("used_memory", "MiB"), ("used_gpu_memory", "MiB"), ("utilization", "%"), ("fan.speed", "%"),
)  # fmt: skip
UNITLESS = ("clocks_event_reasons.", "clocks_throttle_reasons.", "power.management")
REASONS = {
    "gpu_idle": 0x1, "applications_clocks_setting": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20, "hw_thermal_slowdown": 0x40, "hw_power_brake_slowdown": 0x80,
}  # fmt: skip
# names that nvidia-smi knows and that a scenario need not give: not supported then
KNOWN = {
    "timestamp", "count", "index", "uuid", "name", "serial", "driver_version", "vbios_version", "pci.bus_id", "pstate",
    "compute_cap", "compute_mode", "persistence_mode", "addressing_mode", "mig.mode.current", "fan.speed",
    "memory.total", "memory.used", "memory.free", "memory.reserved", "utilization.gpu", "utilization.memory",
    "temperature.gpu", "temperature.memory", "temperature.gpu.tlimit", "power.draw", "power.draw.average",
    "power.draw.instant", "power.limit", "enforced.power.limit", "power.default_limit", "power.min_limit",
    "power.max_limit", "clocks.sm", "clocks.gr", "clocks.current.sm", "clocks.current.graphics", "clocks.mem",
    "clocks.current.memory", "clocks.video", "clocks.max.sm", "clocks.max.gr", "clocks.max.graphics",
    "clocks.max.mem", "clocks.max.memory", "clocks.applications.graphics", "clocks.applications.memory",
    "clocks.default_applications.graphics", "clocks.default_applications.memory", "pcie.link.gen.current",
    "pcie.link.gen.gpucurrent", "pcie.link.gen.max", "pcie.link.gen.gpumax", "pcie.link.gen.hostmax",
    "pcie.link.width.current", "pcie.link.width.max", "ecc.mode.current", "ecc.mode.pending",
    "ecc.errors.corrected.volatile.total", "ecc.errors.uncorrected.volatile.total",
    "ecc.errors.corrected.aggregate.total", "ecc.errors.uncorrected.aggregate.total",
    "retired_pages.single_bit_ecc.count", "retired_pages.double_bit.count", "retired_pages.pending",
    "gpu_recovery_action", "fabric.state", "fabric.status", "clocks_event_reasons.active",
    "clocks_event_reasons.supported", "clocks_event_reasons_counters.sw_power_cap",
    "clocks_event_reasons_counters.sync_boost", "clocks_event_reasons_counters.sw_thermal_slowdown",
    "clocks_event_reasons_counters.hw_thermal_slowdown", "clocks_event_reasons_counters.hw_power_brake_slowdown",
    "protocol.ecc", "display_active", "display_mode", "gpu_bus_id", "gpu_uuid", "gpu_name",
} | {f"clocks_event_reasons.{r}" for r in REASONS}  # fmt: skip
ALIASES = {
    "clocks.applications.gr": "clocks.applications.graphics", "clocks.applications.mem": "clocks.applications.memory",
    "clocks.default_applications.gr": "clocks.default_applications.graphics",
    "clocks.default_applications.mem": "clocks.default_applications.memory",
    "clocks.max.gr": "clocks.max.graphics", "clocks.max.mem": "clocks.max.memory", "clocks.current.sm": "clocks.sm",
    "clocks.current.graphics": "clocks.gr", "clocks.current.memory": "clocks.mem", "gpu_name": "name",
    "power.draw.average": "power.draw", "power.draw.instant": "power.draw", "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id", "pcie.link.gen.gpucurrent": "pcie.link.gen.current",
    "pcie.link.gen.hostmax": "pcie.link.gen.max",
}  # fmt: skip
JITTERED = ("power.draw", "temperature.gpu", "utilization.gpu", "utilization.memory")


class Field(Exception):
    """A name that cannot be queried."""


def now_values(facts: dict[str, Any], busy: str) -> list[dict[str, Any]]:
    """What every GPU shows at this moment."""
    words = busy.split()
    seconds, since = float(words[0] if words else 0), (float(words[1]) if len(words) > 1 else None)
    moment = time.time()
    seconds += moment - since if since is not None else 0.0
    shown = []
    for gpu in facts["gpus"]:
        values = {**gpu["each"], **(gpu["load"] if since is not None else gpu["idle"])}
        for key, per_s in gpu["rates"].items():
            values[key] = int((values.get(key) or 0) + per_s * seconds)
        if since is not None:
            for key in JITTERED:
                if isinstance(values.get(key), (int, float)):
                    # a slow wave, the same for everybody who looks at the same time
                    wave = 1 + facts["jitter"] * math.sin(moment * 2.1 + values["index"] * 1.7 + len(key))
                    values[key] = type(values[key])(values[key] * wave)
        if isinstance(values.get("memory.total"), (int, float)) and isinstance(values.get("memory.used"), (int, float)):
            values.setdefault("memory.free", values["memory.total"] - values["memory.used"])
        shown.append(values)
    return shown


def value_of(values: dict[str, Any], name: str) -> Any:
    """One queried value; None is not supported."""
    name = name.replace("clocks_throttle_reasons.", "clocks_event_reasons.")
    if name in values:
        return values[name]
    if name == "timestamp":
        return time.strftime("%Y/%m/%d %H:%M:%S.000")
    if name in ALIASES and ALIASES[name] in values:
        return values[ALIASES[name]]
    head, _, leaf = name.rpartition(".")
    if head == "clocks_event_reasons" and leaf in REASONS:
        mask = values.get("clocks_event_reasons.active")
        return None if mask is None else "Active" if int(str(mask), 16) & REASONS[leaf] else "Not Active"
    if name not in KNOWN and name not in ALIASES:
        raise Field(f'Field "{name}" is not a valid field to query.\n')
    return None


def unit(name: str) -> str:
    if name.startswith(UNITLESS):
        return ""
    return next((u for prefix, u in UNITS if name.startswith(prefix)), "")


def csv(rows: list[dict[str, Any]], names: list[str], style: str) -> str:
    """`--format=csv[,noheader][,nounits]`."""
    lines = []
    if "noheader" not in style:
        lines.append(", ".join(n + (f" [{unit(n)}]" if unit(n) else "") for n in names))
    for row in rows:
        cells = []
        for name in names:
            value = value_of(row, name)
            shown = f"{value:.2f}" if isinstance(value, float) else str(value)
            with_unit = unit(name) and "nounits" not in style
            cells.append("[N/A]" if value is None else f"{shown} {unit(name)}" if with_unit else shown)
        lines.append(", ".join(cells))
    return "\n".join(lines) + "\n"


# path in `nvidia-smi -q -x` below <gpu>, the queried name it shows
XML = (
    ("product_name", "name"), ("persistence_mode", "persistence_mode"), ("uuid", "uuid"),
    ("vbios_version", "vbios_version"), ("gpu_recovery_action", "gpu_recovery_action"),
    ("pci/pci_bus_id", "pci.bus_id"),
    ("pci/pci_gpu_link_info/pcie_gen/max_link_gen", "pcie.link.gen.max"),
    ("pci/pci_gpu_link_info/pcie_gen/current_link_gen", "pcie.link.gen.current"),
    ("pci/pci_gpu_link_info/pcie_gen/max_device_link_gen", "pcie.link.gen.gpumax"),
    ("pci/pci_gpu_link_info/link_widths/max_link_width", "pcie.link.width.max"),
    ("pci/pci_gpu_link_info/link_widths/current_link_width", "pcie.link.width.current"),
    ("fan_speed", "fan.speed"), ("performance_state", "pstate"),
    *((f"clocks_event_reasons/clocks_event_reason_{r}", f"clocks_event_reasons.{r}") for r in REASONS),
    *((f"clocks_event_reasons_counters/clocks_event_reasons_counters_{r}", f"clocks_event_reasons_counters.{r}")
      for r in ("sw_power_cap", "sync_boost", "sw_thermal_slowdown", "hw_thermal_slowdown",
                "hw_power_brake_slowdown")),
    ("fb_memory_usage/total", "memory.total"), ("fb_memory_usage/used", "memory.used"),
    ("fb_memory_usage/free", "memory.free"), ("utilization/gpu_util", "utilization.gpu"),
    ("utilization/memory_util", "utilization.memory"), ("ecc_mode/current_ecc", "ecc.mode.current"),
    ("temperature/gpu_temp", "temperature.gpu"), ("temperature/memory_temp", "temperature.memory"),
    ("gpu_power_readings/power_state", "pstate"), ("gpu_power_readings/average_power_draw", "power.draw"),
    ("gpu_power_readings/current_power_limit", "enforced.power.limit"),
    ("gpu_power_readings/requested_power_limit", "power.limit"),
    ("gpu_power_readings/default_power_limit", "power.default_limit"),
    ("gpu_power_readings/min_power_limit", "power.min_limit"),
    ("gpu_power_readings/max_power_limit", "power.max_limit"), ("clocks/graphics_clock", "clocks.gr"),
    ("clocks/sm_clock", "clocks.sm"), ("clocks/mem_clock", "clocks.mem"),
    ("max_clocks/graphics_clock", "clocks.max.graphics"), ("max_clocks/sm_clock", "clocks.max.sm"),
    ("max_clocks/mem_clock", "clocks.max.memory"),
)  # fmt: skip


def xml(facts: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """`nvidia-smi -q -x`."""
    from xml.etree import ElementTree as Tree

    root = Tree.Element("nvidia_smi_log")
    for tag, text in (("timestamp", time.strftime("%a %b %d %H:%M:%S %Y")), ("driver_version", facts["driver"]),
                      ("cuda_version", facts["cuda"]), ("attached_gpus", str(len(rows)))):  # fmt: skip
        Tree.SubElement(root, tag).text = text
    for row in rows:
        gpu = Tree.SubElement(root, "gpu", id=row["pci.bus_id"])
        for path, name in XML:
            at = gpu
            for step in path.split("/"):
                found = at.find(step)
                at = Tree.SubElement(at, step) if found is None else found
            value = value_of(row, name)
            shown = f"{value:.2f}" if isinstance(value, float) else str(value)
            at.text = "N/A" if value is None else f"{shown} {unit(name)}".rstrip()
            if path.endswith("_link_width") and value is not None:
                at.text += "x"
        processes = Tree.SubElement(gpu, "processes")
        for process in apps(facts, row["index"]):
            info = Tree.SubElement(processes, "process_info")
            for tag, text in (("pid", process["pid"]), ("type", "C"), ("process_name", process["name"]),
                              ("used_memory", f"{process['used_memory']} MiB")):  # fmt: skip
                Tree.SubElement(info, tag).text = str(text)
    Tree.indent(root, "\t")
    head = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
    return head + Tree.tostring(root, encoding="unicode") + "\n"


def apps(facts: dict[str, Any], index: int | None = None) -> list[dict[str, Any]]:
    """Processes that hold memory on one GPU, or on any."""
    rows = []
    for gpu in facts["gpus"]:
        if index in (None, gpu["each"]["index"]):
            for p in gpu["processes"]:
                names = {"process_name": p["name"], "used_gpu_memory": p["used_memory"]}
                gpu_names = {"gpu_uuid": gpu["each"]["uuid"], "gpu_bus_id": gpu["each"]["pci.bus_id"]}
                rows.append({**p, **names, **gpu_names, "gpu_name": gpu["each"].get("name")})
    return rows


def table(facts: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """The plain `nvidia-smi`, without its box drawing."""
    lines = [f"NVIDIA-SMI {facts['driver']}   Driver Version: {facts['driver']}   CUDA Version: {facts['cuda']}"]
    for row in rows:
        v = {k: "N/A" if row.get(k) is None else row[k] for k in row}
        lines.append(
            f"|   {v['index']}  {v.get('name')}  | {v['pci.bus_id']} | {v.get('temperature.gpu')}C  {v.get('pstate')}  "
            f"{v.get('power.draw')}W / {v.get('power.limit')}W | {v.get('memory.used')}MiB / "
            f"{v.get('memory.total')}MiB | {v.get('utilization.gpu')}% |"
        )
    return "\n".join(lines) + "\n"


def answer(facts: dict[str, Any], busy: str, arguments: list[str]) -> tuple[int, str]:
    """Exit status and output of one call."""
    options = {}
    for i, word in enumerate(arguments):
        name, eq, value = word.partition("=")
        options[name] = value if eq else (arguments[i + 1] if i + 1 < len(arguments) else "")
    if not facts["gpus"]:
        return 9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    rows = now_values(facts, busy)
    wanted = options.get("-i") or options.get("--id")
    if wanted:
        rows = [r for r in rows if str(r["index"]) in wanted.split(",") or r["uuid"] in wanted]
    style = options.get("--format", "")
    try:
        if "--query-gpu" in options:
            return 0, csv(rows, [n.strip() for n in options["--query-gpu"].split(",")], style)
        if "--query-compute-apps" in options:
            return 0, csv(apps(facts), [n.strip() for n in options["--query-compute-apps"].split(",")], style)
    except Field as e:
        return 2, str(e)
    if "topo" in arguments:
        return 0, facts["topology"]
    if "-L" in arguments or "--list-gpus" in arguments:
        return 0, "".join(f"GPU {r['index']}: {r.get('name')} (UUID: {r['uuid']})\n" for r in rows)
    if "-q" in arguments or "--query" in arguments:
        if "-x" in arguments or "--xml-format" in arguments:
            return 0, xml(facts, rows)
        return 2, "The simulated nvidia-smi answers -q only with -x.\n"
    unknown = [a for a in arguments if a.startswith("-") and a.split("=")[0] not in ("-i", "--id")]
    if unknown:
        return 2, f"Invalid combination of input arguments: {' '.join(unknown)}. Please run 'nvidia-smi -h' for help.\n"
    return 0, table(facts, rows)


def main(arguments: list[str]) -> int:
    with open(arguments[0], encoding="utf-8") as f:
        facts = json.load(f)
    rest = arguments[2:]
    every = loop_seconds(rest)
    while True:
        with open(arguments[1], encoding="utf-8") as f:
            status, text = answer(facts, f.read(), rest)
        sys.stdout.write(text)
        sys.stdout.flush()
        if every is None or status:
            return status
        time.sleep(every)


def loop_seconds(arguments: list[str]) -> float | None:
    """`-l S`, `--loop=S`, `-lms MS`, `--loop-ms=MS`."""
    for i, word in enumerate(arguments):
        name, eq, value = word.partition("=")
        if name in ("-l", "--loop", "-lms", "--loop-ms"):
            value = value if eq else arguments[i + 1]
            return float(value) / (1000 if "ms" in name else 1)
    return None


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(1)
