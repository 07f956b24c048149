"""Where `nvidia-smi -q` writes each value of gpu.json, in its XML and in its text, over driver versions.

Throttle reasons became event reasons in driver 535; "Power Readings" became GPU and module power readings in 530. The
first spelling of a row that says something is taken.
"""

from __future__ import annotations

# key of gpu.json: paths in the XML | paths in the text
ROWS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "name": (("product_name",), ("product name",)),
    "uuid": (("uuid",), ("gpu uuid",)),
    "vbios_version": (("vbios_version",), ("vbios version",)),
    "persistence_mode": (("persistence_mode",), ("persistence mode",)),
    "addressing_mode": (("addressing_mode",), ("addressing mode",)),
    "compute_mode": (("compute_mode",), ("compute mode",)),
    "mig.mode.current": (("mig_mode/current_mig",), ("mig mode/current",)),
    "gpu_recovery_action": (("gpu_recovery_action",), ("gpu recovery action",)),
    "nvml.virtualization": (
        ("gpu_virtualization_mode/virtualization_mode",), ("gpu virtualization mode/virtualization mode",)),
    "pci.bus_id": (("pci/pci_bus_id",), ("pci/bus id",)),
    "pcie.link.gen.current": (
        ("pci/pci_gpu_link_info/pcie_gen/current_link_gen",), ("pci/gpu link info/pcie generation/current",)),
    "pcie.link.gen.max": (
        ("pci/pci_gpu_link_info/pcie_gen/max_link_gen",), ("pci/gpu link info/pcie generation/max",)),
    "pcie.link.gen.gpumax": (
        ("pci/pci_gpu_link_info/pcie_gen/max_device_link_gen",), ("pci/gpu link info/pcie generation/device max",)),
    "pcie.link.gen.hostmax": (
        ("pci/pci_gpu_link_info/pcie_gen/max_host_link_gen",), ("pci/gpu link info/pcie generation/host max",)),
    "pcie.link.width.current": (
        ("pci/pci_gpu_link_info/link_widths/current_link_width",), ("pci/gpu link info/link width/current",)),
    "pcie.link.width.max": (
        ("pci/pci_gpu_link_info/link_widths/max_link_width",), ("pci/gpu link info/link width/max",)),
    "nvml.pcie_replay": (("pci/replay_counter",), ("pci/replays since reset",)),
    "fan.speed": (("fan_speed",), ("fan speed",)),
    "pstate": (("performance_state",), ("performance state",)),
    "memory.total": (("fb_memory_usage/total",), ("fb memory usage/total",)),
    "memory.reserved": (("fb_memory_usage/reserved",), ("fb memory usage/reserved",)),
    "memory.used": (("fb_memory_usage/used",), ("fb memory usage/used",)),
    "memory.free": (("fb_memory_usage/free",), ("fb memory usage/free",)),
    "nvml.bar1_total": (("bar1_memory_usage/total",), ("bar1 memory usage/total",)),
    "utilization.gpu": (("utilization/gpu_util",), ("utilization/gpu",)),
    "utilization.memory": (("utilization/memory_util",), ("utilization/memory",)),
    "ecc.mode.current": (("ecc_mode/current_ecc",), ("ecc mode/current",)),
    "ecc.errors.uncorrected.volatile.total": (
        ("ecc_errors/volatile/dram_uncorrectable", "ecc_errors/volatile/double_bit/total"),
        ("ecc errors/volatile/dram uncorrectable", "ecc errors/volatile/double bit/total")),
    "ecc.errors.corrected.volatile.total": (
        ("ecc_errors/volatile/dram_correctable", "ecc_errors/volatile/single_bit/total"),
        ("ecc errors/volatile/dram correctable", "ecc errors/volatile/single bit/total")),
    "ecc.errors.uncorrected.aggregate.total": (
        ("ecc_errors/aggregate/dram_uncorrectable", "ecc_errors/aggregate/double_bit/total"),
        ("ecc errors/aggregate/dram uncorrectable", "ecc errors/aggregate/double bit/total")),
    "retired_pages.pending": (
        ("retired_pages/pending_retirement", "retired_pages/pending_blacklist"),
        ("retired pages/pending page retirement", "retired pages/pending page blacklist")),
    "remapped_rows.correctable": (("remapped_rows/remapped_row_corr",), ("remapped rows/correctable error",)),
    "remapped_rows.uncorrectable": (("remapped_rows/remapped_row_unc",), ("remapped rows/uncorrectable error",)),
    "remapped_rows.pending": (("remapped_rows/remapped_row_pending",), ("remapped rows/pending",)),
    "remapped_rows.failure": (
        ("remapped_rows/remapped_row_failure",), ("remapped rows/remapping failure occurred",)),
    "temperature.gpu": (("temperature/gpu_temp",), ("temperature/gpu current temp",)),
    "temperature.gpu.tlimit": (("temperature/gpu_temp_tlimit",), ("temperature/gpu t.limit temp",)),
    "temperature.memory": (("temperature/memory_temp",), ("temperature/memory current temp",)),
    "power.draw": (
        ("gpu_power_readings/average_power_draw", "gpu_power_readings/power_draw", "power_readings/power_draw"),
        ("gpu power readings/average power draw", "gpu power readings/power draw", "power readings/power draw")),
    "power.draw.instant": (
        ("gpu_power_readings/instant_power_draw",), ("gpu power readings/instantaneous power draw",)),
    # requested is what somebody set, current what is enforced (both were one "Power Limit" before driver 530)
    "power.limit": (
        ("gpu_power_readings/requested_power_limit", "gpu_power_readings/power_limit", "power_readings/power_limit",
         "gpu_power_readings/current_power_limit"),
        ("gpu power readings/requested power limit", "gpu power readings/power limit", "power readings/power limit",
         "gpu power readings/current power limit")),
    "enforced.power.limit": (
        ("gpu_power_readings/current_power_limit", "power_readings/enforced_power_limit"),
        ("gpu power readings/current power limit", "power readings/enforced power limit")),
    "power.default_limit": (
        ("gpu_power_readings/default_power_limit", "power_readings/default_power_limit"),
        ("gpu power readings/default power limit", "power readings/default power limit")),
    "power.min_limit": (
        ("gpu_power_readings/min_power_limit", "power_readings/min_power_limit"),
        ("gpu power readings/min power limit", "power readings/min power limit")),
    "power.max_limit": (
        ("gpu_power_readings/max_power_limit", "power_readings/max_power_limit"),
        ("gpu power readings/max power limit", "power readings/max power limit")),
    "clocks.gr": (("clocks/graphics_clock",), ("clocks/graphics",)),
    "clocks.sm": (("clocks/sm_clock",), ("clocks/sm",)),
    "clocks.mem": (("clocks/mem_clock",), ("clocks/memory",)),
    "clocks.applications.gr": (("applications_clocks/graphics_clock",), ("applications clocks/graphics",)),
    "clocks.applications.mem": (("applications_clocks/mem_clock",), ("applications clocks/memory",)),
    "clocks.default_applications.gr": (
        ("default_applications_clocks/graphics_clock",), ("default applications clocks/graphics",)),
    "clocks.max.gr": (("max_clocks/graphics_clock",), ("max clocks/graphics",)),
    "clocks.max.sm": (("max_clocks/sm_clock",), ("max clocks/sm",)),
    "clocks.max.mem": (("max_clocks/mem_clock",), ("max clocks/memory",)),
    "fabric.state": (("fabric/state",), ("fabric/state",)),
    "fabric.status": (("fabric/status",), ("fabric/status",)),
}  # fmt: skip
# a clock event reason -> its label in the text; in the XML it is clocks_event_reason_<word>
LABELS = {
    "gpu_idle": "idle", "applications_clocks_setting": "applications clocks setting", "sw_power_cap": "sw power cap",
    "hw_slowdown": "hw slowdown", "hw_thermal_slowdown": "hw slowdown/hw thermal slowdown",
    "hw_power_brake_slowdown": "hw slowdown/hw power brake slowdown", "sync_boost": "sync boost",
    "sw_thermal_slowdown": "sw thermal slowdown", "display_clock_setting": "display clock setting",
}  # fmt: skip
COUNTERS = {
    "sw_power_cap": "sw power capping", "sync_boost": "sync boost", "sw_thermal_slowdown": "sw thermal slowdown",
    "hw_thermal_slowdown": "hw thermal slowdown", "hw_power_brake_slowdown": "hw power braking",
}  # fmt: skip
