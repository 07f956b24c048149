"""A stand-in `nvidia-smi` that reads the same state file as the library of this folder (FAKE_NVML_STATE).

It answers what the collector asks, as the real one prints it: `--query-gpu`, `--query-compute-apps`,
`--query-remapped-rows` as CSV, `-q -x`, `-L`, `topo -m`, `topo -p2p r`. A state's `smi` says what is peculiar:

    {"refuses": "Failed to initialize NVML: …", "status": 18}      it prints this and nothing else
    {"handle": "Unable to determine the device handle for …"}      what it says of a card that gives no handle
    {"failed": {"Unknown Error": "ERR!"}}                          how it spells a read that failed
    {"null": {"clocks.applications.gr": "[…]"}}                    how it spells that this one is not supported
    {"without": ["gpu_recovery_action"]}                           names that it does not know
    {"cut": 300}                                                   it stops after so many characters
    {"replace": {".": ","}, "units": true}                         another dialect
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any
from xml.etree import ElementTree as Tree

# names that came with a driver; the others are older than any
SINCE = {
    "clocks_event_reasons.": 535, "clocks_event_reasons_counters.": 560, "gpu_recovery_action": 560,
    "addressing_mode": 570, "fabric.": 525, "power.draw.instant": 530, "temperature.gpu.tlimit": 535,
    "memory.reserved": 510, "pcie.link.gen.gpumax": 515, "compute_cap": 470,
}  # fmt: skip
# what else may be asked; keys of a state's cards are known anyhow
KNOWN = {
    "index", "uuid", "name", "pci.bus_id", "driver_version", "vbios_version", "compute_cap", "memory.total",
    "memory.used", "memory.free", "memory.reserved", "clocks.max.sm", "clocks.max.mem", "clocks.applications.gr",
    "clocks.applications.mem", "power.default_limit", "power.min_limit", "power.max_limit", "pcie.link.gen.max",
    "pcie.link.gen.gpumax", "pcie.link.width.max", "mig.mode.current", "ecc.mode.current", "persistence_mode",
    "compute_mode", "addressing_mode", "clocks_event_reasons.supported", "retired_pages.pending", "pstate", "clocks.sm",
    "clocks.mem", "clocks.gr", "clocks_event_reasons.active", "power.draw", "power.draw.instant", "power.limit",
    "enforced.power.limit", "temperature.gpu", "temperature.memory", "temperature.gpu.tlimit", "utilization.gpu",
    "utilization.memory", "pcie.link.gen.current", "pcie.link.width.current", "fan.speed", "gpu_recovery_action",
    "fabric.state", "fabric.status",
    *(f"ecc.errors.{e}.{c}.total" for e in ("corrected", "uncorrected") for c in ("volatile", "aggregate")),
    *(f"clocks_event_reasons_counters.{r}" for r in (
        "sw_power_cap", "sync_boost", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")),
}  # fmt: skip
OLDER = {"clocks_throttle_reasons.": "clocks_event_reasons."}
UNITS = (
    ("clocks_event_reasons_counters.", "us"), ("clocks_event_reasons.", ""), ("clocks.", "MHz"), ("power.", "W"),
    ("enforced.power.limit", "W"), ("memory.", "MiB"), ("utilization.", "%"), ("fan.speed", "%"),
)  # fmt: skip
# path below <gpu> of `-q -x`, the value that stands there, its unit
XML = (
    ("product_name", "name", ""), ("persistence_mode", "persistence_mode", ""),
    ("addressing_mode", "addressing_mode", ""), ("mig_mode/current_mig", "mig.mode.current", ""),
    ("uuid", "uuid", ""), ("vbios_version", "vbios_version", ""),
    ("gpu_virtualization_mode/virtualization_mode", "nvml.virtualization", ""),
    ("gsp_firmware_version", "nvml.gsp_firmware", ""), ("gpu_recovery_action", "gpu_recovery_action", ""),
    ("pci/pci_bus_id", "pci.bus_id", ""), ("pci/pci_gpu_link_info/pcie_gen/max_link_gen", "pcie.link.gen.max", ""),
    ("pci/pci_gpu_link_info/pcie_gen/current_link_gen", "pcie.link.gen.current", ""),
    ("pci/pci_gpu_link_info/pcie_gen/max_device_link_gen", "pcie.link.gen.gpumax", ""),
    ("pci/pci_gpu_link_info/link_widths/max_link_width", "pcie.link.width.max", "x"),
    ("pci/pci_gpu_link_info/link_widths/current_link_width", "pcie.link.width.current", "x"),
    ("pci/replay_counter", "nvml.pcie_replay", ""), ("fan_speed", "fan.speed", " %"),
    ("performance_state", "pstate", ""),
    ("fb_memory_usage/total", "memory.total", " MiB"), ("fb_memory_usage/reserved", "memory.reserved", " MiB"),
    ("fb_memory_usage/used", "memory.used", " MiB"), ("fb_memory_usage/free", "memory.free", " MiB"),
    ("bar1_memory_usage/total", "nvml.bar1_total", " MiB"), ("compute_mode", "compute_mode", ""),
    ("utilization/gpu_util", "utilization.gpu", " %"), ("utilization/memory_util", "utilization.memory", " %"),
    ("ecc_mode/current_ecc", "ecc.mode.current", ""),
    ("retired_pages/pending_retirement", "retired_pages.pending", ""),
    ("remapped_rows/remapped_row_corr", "remapped_rows.correctable", ""),
    ("remapped_rows/remapped_row_unc", "remapped_rows.uncorrectable", ""),
    ("remapped_rows/remapped_row_pending", "remapped_rows.pending", ""),
    ("remapped_rows/remapped_row_failure", "remapped_rows.failure", ""),
    ("temperature/gpu_temp", "temperature.gpu", " C"), ("temperature/gpu_temp_tlimit", "temperature.gpu.tlimit", " C"),
    ("temperature/memory_temp", "temperature.memory", " C"),
    ("gpu_power_readings/average_power_draw", "power.draw", " W"),
    ("gpu_power_readings/instant_power_draw", "power.draw.instant", " W"),
    ("gpu_power_readings/current_power_limit", "enforced.power.limit", " W"),
    ("gpu_power_readings/requested_power_limit", "power.limit", " W"),
    ("gpu_power_readings/default_power_limit", "power.default_limit", " W"),
    ("gpu_power_readings/min_power_limit", "power.min_limit", " W"),
    ("gpu_power_readings/max_power_limit", "power.max_limit", " W"), ("clocks/graphics_clock", "clocks.gr", " MHz"),
    ("clocks/sm_clock", "clocks.sm", " MHz"), ("clocks/mem_clock", "clocks.mem", " MHz"),
    ("applications_clocks/graphics_clock", "clocks.applications.gr", " MHz"),
    ("applications_clocks/mem_clock", "clocks.applications.mem", " MHz"),
    ("max_clocks/sm_clock", "clocks.max.sm", " MHz"), ("max_clocks/mem_clock", "clocks.max.mem", " MHz"),
    ("fabric/state", "fabric.state", ""),
    ("fabric/status", "fabric.status", ""),
    *((f"clocks_event_reasons_counters/clocks_event_reasons_counters_{r}", f"clocks_event_reasons_counters.{r}", " us")
      for r in ("sw_power_cap", "sync_boost", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")),
)  # fmt: skip
REASONS = {
    0x1: "gpu_idle", 0x2: "applications_clocks_setting", 0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost",
    0x20: "sw_thermal_slowdown", 0x40: "hw_thermal_slowdown", 0x80: "hw_power_brake_slowdown",
}  # fmt: skip


def since(name: str) -> int:
    """The driver that brought a name; 0 for one that is older than any. The longest prefix decides."""
    return max(((len(p), v) for p, v in SINCE.items() if name.startswith(p)), default=(0, 0))[1]


class Unknown(Exception):
    """A name that this nvidia-smi does not know."""


class Smi:
    """One host's nvidia-smi."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state, self.odd = state, state.get("smi", {})
        self.driver = int(str(state["driver_version"]).partition(".")[0])
        self.cards = [g for g in state["gpus"] if "error" not in g]
        self.refused = self.odd.get("handle", "") + "\n" if len(self.cards) < len(state["gpus"]) else ""

    def key(self, name: str) -> str:
        """The value that a queried name means. Raises Unknown."""
        for older, newer in OLDER.items():
            if name.startswith(older):
                return name.replace(older, newer)
        if self.driver < since(name) or name in self.odd.get("without", ()) or name not in KNOWN:
            raise Unknown(f'Field "{name}" is not a valid field to query.\n')
        return name

    def names(self) -> str:
        """`--help-query-gpu`."""
        lines = ['List of valid properties to query for the switch "--query-gpu":', ""]
        for name in sorted(KNOWN):
            older = next((name.replace(n, o) for o, n in OLDER.items() if name.startswith(n)), None)
            try:
                lines += [f'"{self.key(name)}"' + (f' or "{older}"' if older else ""), "What it is.", ""]
            except Unknown:
                lines += [f'"{older}"', "What it is.", ""] if older else []
        return "\n".join(lines) + "\n"

    def cell(self, card: dict[str, Any], key: str, units: bool) -> str:
        value = card.get(key)
        if value is None:
            return str(self.odd.get("null", {}).get(key, "[N/A]"))
        if isinstance(value, dict):
            return str(self.odd.get("failed", {}).get(value["error"], f"[{value['error']}]"))
        shown = f"{value:.2f}" if isinstance(value, float) else str(value)
        unit = next((u for prefix, u in UNITS if key.startswith(prefix)), "")
        return f"{shown} {unit}" if units and unit else shown

    def query(self, names: list[str], form: str) -> str:
        """`--query-gpu` and `--query-remapped-rows`."""
        keys = [self.key(n) if n.startswith(("clocks_", "fabric")) or n in KNOWN else n for n in names]
        units = "nounits" not in form or self.odd.get("units", False)
        lines = [] if "noheader" in form else [", ".join(names)]
        lines += [", ".join(self.cell(card, k, units) for k in keys) for card in self.cards]
        return "\n".join(lines) + "\n"

    def remapped(self, names: list[str], form: str) -> str:
        if all(card.get("remapped_rows.correctable") is None for card in self.cards):
            return "No remapped rows\n"
        return self.query([{"gpu_uuid": "uuid"}.get(n, n) for n in names], form)

    def apps(self) -> str:
        lines = []
        for card in self.cards:
            processes = card.get("processes")
            if isinstance(processes, dict):
                lines.append(f"{card['uuid']}, [{processes['error']}], [{processes['error']}], [{processes['error']}]")
                continue
            for p in processes or ():
                memory = "[N/A]" if p["used_memory"] is None else p["used_memory"]
                lines.append(f"{card['uuid']}, {p['pid']}, {p['name']}, {memory}")
        return "".join(line + "\n" for line in lines)

    # -- the long print -------------------------------------------------------------------------------------------

    def xml(self) -> str:
        root = Tree.Element("nvidia_smi_log")
        for tag in ("timestamp", "driver_version", "cuda_version", "attached_gpus"):
            said = {"timestamp": "Mon Dec  1 12:00:00 2025", "attached_gpus": len(self.cards), **self.state}
            Tree.SubElement(root, tag).text = str(said[tag])
        for card in self.cards:
            self.xml_card(Tree.SubElement(root, "gpu", id=card["pci.bus_id"]), card)
        Tree.indent(root, "\t")
        head = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
        return head + Tree.tostring(root, encoding="unicode") + "\n"

    def xml_card(self, top: Tree.Element, card: dict[str, Any]) -> None:
        every = {**card, **{f"nvml.{k}": v for k, v in card.get("nvml", {}).items()}}
        for path, key, unit in XML:
            value = every.get(key)
            if value is None:
                text = "N/A"
            elif isinstance(value, dict):
                text = self.odd.get("failed", {}).get(value["error"], value["error"])
            elif key in ("remapped_rows.pending", "remapped_rows.failure"):
                text = "Yes" if value else "No"
            else:
                text = (f"{value:.2f}" if isinstance(value, float) else str(value)) + unit
            _put(top, path, text)
        mask = card.get("clocks_event_reasons.active")
        word = "event" if self.driver >= 535 else "throttle"
        for bit, reason in REASONS.items():
            text = "N/A" if not isinstance(mask, str) else "Active" if int(mask, 16) & bit else "Not Active"
            _put(top, f"clocks_{word}_reasons/clocks_{word}_reason_{reason}", text)
        for kind in ("volatile", "aggregate"):
            for error, tag in (("corrected", "dram_correctable"), ("uncorrected", "dram_uncorrectable")):
                value = card.get(f"ecc.errors.{error}.{kind}.total")
                shown = value["error"] if isinstance(value, dict) else "N/A" if value is None else str(value)
                _put(top, f"ecc_errors/{kind}/{tag}", shown)
        for m in card.get("nvml", {}).get("mig_devices", ()):
            device = Tree.SubElement(_place(top, "mig_devices"), "mig_device")
            _put(device, "index", str(m["index"]))
            _put(device, "device_attributes/shared/multiprocessor_count", str(m["multiprocessors"]))
            _put(device, "fb_memory_usage/total", f"{m['memory_mib']} MiB")
        processes = Tree.SubElement(top, "processes")
        for p in card["processes"] if isinstance(card.get("processes"), list) else ():
            info = Tree.SubElement(processes, "process_info")
            memory = "N/A" if p["used_memory"] is None else f"{p['used_memory']} MiB"
            for tag, text in (("pid", p["pid"]), ("type", "C"), ("process_name", p["name"]), ("used_memory", memory)):
                Tree.SubElement(info, tag).text = str(text)

    # -- lists and matrices -----------------------------------------------------------------------------------------

    def listed(self) -> str:
        lines = []
        for card in self.cards:
            lines.append(f"GPU {card['index']}: {card['name']} (UUID: {card['uuid']})")
            for m in card.get("nvml", {}).get("mig_devices", ()):
                profile = m["name"].rpartition("MIG ")[2]
                lines.append(f"  MIG {profile:<12}  Device {m['index']:>2}: (UUID: {m['uuid']})")
        return "\n".join(lines) + "\n"

    def matrix(self, cell: Any, more: str = "", nodes: bool = False) -> str:
        heads = [f"GPU{c['index']}" for c in self.cards]
        lines = ["\t" + "\t".join(heads) + more]
        for a in self.cards:
            row = [" X " if a is b else cell(a, b) for b in self.cards]
            place = f"\t0-31\t{a.get('nvml', {}).get('numa_node', 0)}\t\tN/A" if nodes else ""
            lines.append(f"GPU{a['index']}\t" + "\t".join(row) + place)
        return "\n".join(lines) + "\n"

    def path(self, a: dict[str, Any], b: dict[str, Any]) -> str:
        links = a.get("nvml", {}).get("nvlink") or ()
        there = sum(1 for link in links if link["active"] and link["remote"] in ("switch", b["pci.bus_id"]))
        return f"NV{there}" if there else self.pair("path", a, b, "SYS")

    def pair(self, what: str, a: dict[str, Any], b: dict[str, Any], default: str) -> str:
        said = self.state.get(what, {})
        first, second = sorted((a["index"], b["index"]))
        return str(said.get(f"{first}-{second}", said.get("all", default)))

    def topology(self) -> str:
        return self.matrix(self.path, "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID", nodes=True) + (
            "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe and the link between NUMA nodes\n"
        )

    def peers(self) -> str:
        legend = "\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n"
        return self.matrix(lambda a, b: self.pair("peers", a, b, "OK")) + legend


def _place(top: Tree.Element, path: str) -> Tree.Element:
    for step in path.split("/"):
        found = top.find(step)
        top = Tree.SubElement(top, step) if found is None else found
    return top


def _put(top: Tree.Element, path: str, text: str) -> None:
    _place(top, path).text = text


def answer(smi: Smi, argv: list[str]) -> str:
    """What is printed. Raises Unknown."""
    named = {a.partition("=")[0]: a.partition("=")[2] for a in argv}
    form = named.get("--format", "")
    if "--query-gpu" in named:
        return smi.query(named["--query-gpu"].split(","), form)
    if "--query-remapped-rows" in named:
        return smi.remapped(named["--query-remapped-rows"].split(","), form)
    if "--query-compute-apps" in named:
        return smi.apps()
    if argv[:2] == ["-q", "-x"]:
        return smi.xml()
    if argv == ["--help-query-gpu"]:
        return smi.names()
    if argv == ["-L"]:
        return smi.listed()
    if argv == ["topo", "-m"]:
        return smi.topology()
    if argv == ["topo", "-p2p", "r"]:
        return smi.peers()
    raise Unknown(f"Invalid combination of input arguments: {' '.join(argv)}\n")


def main(argv: list[str]) -> int:
    with open(os.environ["FAKE_NVML_STATE"], encoding="utf-8") as f:
        smi = Smi(json.load(f))
    if "refuses" in smi.odd:
        sys.stdout.write(smi.odd["refuses"] + "\n")
        return int(smi.odd["status"])
    try:
        said = smi.refused + answer(smi, argv)
    except Unknown as e:
        sys.stdout.write(str(e))
        return 2
    for old, new in smi.odd.get("replace", {}).items():
        said = said.replace(old, new)
    sys.stdout.write(said[: smi.odd.get("cut")])
    return int(smi.odd.get("status", 0)) if smi.refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
