"""GPU values by NVML, through the pynvml module that came along; the same names and units as nvidia-smi's.

Three things are kept apart: a value, `None` for "not supported by this card or driver", and {"error": …} for a read
that failed. What only NVML knows stands under `nvml`.
"""

import base64
import sys
import types

from guest.ask import Failed

MIB = 1024.0 * 1024.0
# nvmlDeviceGetFieldValues: nanoseconds with a clock-event reason set -> nvidia-smi's counters in microseconds
REASON_TIME = {
    74: "sw_power_cap", 76: "sync_boost", 269: "sw_thermal_slowdown", 270: "hw_thermal_slowdown",
    271: "hw_power_brake_slowdown",
}  # fmt: skip
TEMPERATURE_MEMORY, DRAW_INSTANT = 82, 186
ON = {0: "Disabled", 1: "Enabled"}
COMPUTE = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
LINK_ERRORS = {0: "replay", 1: "recovery", 2: "crc_flit", 3: "crc_data"}
UNIONS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}


def load(packed):
    """The pynvml module from its packed text, with the driver's library open; Failed with the driver's words."""
    if "pynvml" not in sys.modules:
        if not packed:
            raise Failed("NVML: the pynvml module did not come along")
        sys.modules["pynvml"] = module = types.ModuleType("pynvml")  # it looks itself up there
        try:
            import zlib

            source = zlib.decompress(base64.b64decode(packed))
            exec(compile(source, "pynvml.py", "exec"), module.__dict__)
        except Exception as e:  # a Python without zlib or ctypes, or too old for this pynvml
            del sys.modules["pynvml"]
            raise Failed("NVML: %s: %s" % (type(e).__name__, e))
    module = sys.modules["pynvml"]
    try:
        module.nvmlInit()
    except module.NVMLError as e:
        raise Failed("NVML: %s" % e)
    return module


class Nvml:
    """Asks one host's NVML."""

    source = "nvml"

    def __init__(self, module, name_of):
        self._n, self._name_of = module, name_of
        count = self._call(lambda: module.nvmlDeviceGetCount())
        if not isinstance(count, int) or count == 0:
            raise Failed("NVML: %s" % (count["error"] if isinstance(count, dict) else "it lists no GPU"))
        self._handles = [(i, self._call(lambda i=i: module.nvmlDeviceGetHandleByIndex(i))) for i in range(count)]
        self.driver_version = text(self._call(module.nvmlSystemGetDriverVersion))
        self.fixed = [self._fixed(i, h) for i, h in self._handles]

    def live(self):
        """Values of this moment of every GPU."""
        return [self._live(i, h) for i, h in self._handles]

    def _call(self, ask):
        """A value, None, or {"error": …}."""
        n = self._n
        try:
            return ask()
        except (n.NVMLError_NotSupported, n.NVMLError_FunctionNotFound):
            return None
        except n.NVMLError as e:
            return {"error": str(e)}
        except AttributeError:  # a name this pynvml does not have
            return None

    def _read(self, rows, handle):
        if isinstance(handle, dict):  # the card did not even give a handle
            return {name: handle for name, _ in rows}
        return {name: self._call(lambda ask=ask: ask(handle)) for name, ask in rows}

    def _fixed(self, index, handle):
        n = self._n
        rows = [
            ("uuid", lambda h: text(n.nvmlDeviceGetUUID(h))),
            ("name", lambda h: text(n.nvmlDeviceGetName(h))),
            ("pci.bus_id", lambda h: text(n.nvmlDeviceGetPciInfo(h).busId)),
            ("vbios_version", lambda h: text(n.nvmlDeviceGetVbiosVersion(h))),
            ("compute_cap", lambda h: "%d.%d" % tuple(n.nvmlDeviceGetCudaComputeCapability(h))),
            ("memory.total", lambda h: mib(self._memory(h).total)),
            ("clocks.max.sm", lambda h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM)),
            ("clocks.max.mem", lambda h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_MEM)),
            ("clocks.applications.gr", lambda h: n.nvmlDeviceGetApplicationsClock(h, n.NVML_CLOCK_GRAPHICS)),
            ("clocks.applications.mem", lambda h: n.nvmlDeviceGetApplicationsClock(h, n.NVML_CLOCK_MEM)),
            ("power.default_limit", lambda h: n.nvmlDeviceGetPowerManagementDefaultLimit(h) / 1000.0),
            ("power.min_limit", lambda h: n.nvmlDeviceGetPowerManagementLimitConstraints(h)[0] / 1000.0),
            ("power.max_limit", lambda h: n.nvmlDeviceGetPowerManagementLimitConstraints(h)[1] / 1000.0),
            ("pcie.link.gen.max", n.nvmlDeviceGetMaxPcieLinkGeneration),
            ("pcie.link.gen.gpumax", lambda h: n.nvmlDeviceGetGpuMaxPcieLinkGeneration(h)),
            ("pcie.link.width.max", n.nvmlDeviceGetMaxPcieLinkWidth),
            ("mig.mode.current", lambda h: ON.get(n.nvmlDeviceGetMigMode(h)[0])),
            ("ecc.mode.current", lambda h: ON.get(n.nvmlDeviceGetEccMode(h)[0])),
            ("persistence_mode", lambda h: ON.get(n.nvmlDeviceGetPersistenceMode(h))),
            ("compute_mode", lambda h: COMPUTE.get(n.nvmlDeviceGetComputeMode(h))),
            ("clocks_event_reasons.supported", lambda h: mask(n.nvmlDeviceGetSupportedClocksEventReasons(h))),
            ("retired_pages.pending", lambda h: {0: "No", 1: "Yes"}[n.nvmlDeviceGetRetiredPagesPendingStatus(h)]),
        ]
        gpu = {"index": index}
        gpu.update(self._read(rows, handle))
        gpu.update(self._remapped(handle))
        return gpu

    def _live(self, index, handle):
        n = self._n
        rows = [
            ("pstate", lambda h: "P%d" % n.nvmlDeviceGetPerformanceState(h)),
            ("clocks.sm", lambda h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM)),
            ("clocks.mem", lambda h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_MEM)),
            ("clocks.gr", lambda h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_GRAPHICS)),
            ("clocks_event_reasons.active", lambda h: mask(self._reasons(h))),
            ("power.draw", lambda h: n.nvmlDeviceGetPowerUsage(h) / 1000.0),
            ("power.limit", lambda h: n.nvmlDeviceGetPowerManagementLimit(h) / 1000.0),
            ("enforced.power.limit", lambda h: n.nvmlDeviceGetEnforcedPowerLimit(h) / 1000.0),
            ("temperature.gpu", lambda h: n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU)),
            ("temperature.gpu.tlimit", lambda h: n.nvmlDeviceGetMarginTemperature(h)),
            ("utilization.gpu", lambda h: n.nvmlDeviceGetUtilizationRates(h).gpu),
            ("utilization.memory", lambda h: n.nvmlDeviceGetUtilizationRates(h).memory),
            ("memory.used", lambda h: mib(self._memory(h).used)),
            ("memory.free", lambda h: mib(self._memory(h).free)),
            ("memory.reserved", lambda h: mib(self._memory(h).reserved)),
            ("pcie.link.gen.current", n.nvmlDeviceGetCurrPcieLinkGeneration),
            ("pcie.link.width.current", n.nvmlDeviceGetCurrPcieLinkWidth),
            ("fan.speed", n.nvmlDeviceGetFanSpeed),
            ("ecc.errors.corrected.volatile.total", lambda h: n.nvmlDeviceGetTotalEccErrors(h, 0, 0)),
            ("ecc.errors.uncorrected.volatile.total", lambda h: n.nvmlDeviceGetTotalEccErrors(h, 1, 0)),
        ]
        gpu = {"index": index}
        gpu.update(self._read(rows, handle))
        gpu.update(self._fields(handle))
        processes = self._processes(handle)
        if processes is not None:
            gpu["processes"] = processes
        return gpu

    def links(self):
        """What is read before and after only: replays, NVLink, fabric, energy; by GPU index."""
        n = self._n
        rows = [
            ("pcie_replay", n.nvmlDeviceGetPcieReplayCounter),
            ("energy_mj", lambda h: n.nvmlDeviceGetTotalEnergyConsumption(h)),
            ("numa_node", lambda h: n.nvmlDeviceGetNumaNodeId(h)),
            ("nvlink", self._nvlink),
        ]
        return {i: self._read(rows, h) for i, h in self._handles}

    def _memory(self, handle):
        # version 1 counts what the driver reserves as used
        try:
            return self._n.nvmlDeviceGetMemoryInfo(handle, self._n.nvmlMemory_v2)
        except self._n.NVMLError_FunctionNotFound:
            return self._n.nvmlDeviceGetMemoryInfo(handle)

    def _reasons(self, handle):
        try:
            return self._n.nvmlDeviceGetCurrentClocksEventReasons(handle)
        except self._n.NVMLError_FunctionNotFound:  # before driver 535
            return self._n.nvmlDeviceGetCurrentClocksThrottleReasons(handle)

    def _fields(self, handle):
        wanted = list(REASON_TIME) + [TEMPERATURE_MEMORY, DRAW_INSTANT]
        names = {i: "clocks_event_reasons_counters." + w for i, w in REASON_TIME.items()}
        names.update({TEMPERATURE_MEMORY: "temperature.memory", DRAW_INSTANT: "power.draw.instant"})
        scale = {TEMPERATURE_MEMORY: 1, DRAW_INSTANT: 1000.0}
        if isinstance(handle, dict):
            return dict.fromkeys(names.values(), handle)
        got = self._call(lambda: self._n.nvmlDeviceGetFieldValues(handle, wanted))
        if not got or isinstance(got, dict):
            return dict.fromkeys(names.values(), got or None)
        out = {}
        for field in got:
            value = self._call(lambda field=field: self._field(field))
            if isinstance(value, (int, float)):
                value = value / scale[field.fieldId] if field.fieldId in scale else value // 1000
                value = int(value) if field.fieldId == TEMPERATURE_MEMORY else value
            out[names[field.fieldId]] = value
        return out

    def _field(self, field):
        if field.nvmlReturn != 0:
            raise self._n.NVMLError(field.nvmlReturn)
        return getattr(field.value, UNIONS[field.valueType])

    def _remapped(self, handle):
        names = (
            "remapped_rows.correctable",
            "remapped_rows.uncorrectable",
            "remapped_rows.pending",
            "remapped_rows.failure",
        )
        if isinstance(handle, dict):
            return {}
        got = self._call(lambda: self._n.nvmlDeviceGetRemappedRows(handle))
        return dict(zip(names, got)) if isinstance(got, (list, tuple)) else dict.fromkeys(names, got)

    def _nvlink(self, handle):
        """State, version and error counters of each link that there is."""
        n, found = self._n, []
        for link in range(18):
            state = self._call(lambda link=link: n.nvmlDeviceGetNvLinkState(handle, link))
            if state is None or isinstance(state, dict):
                break
            row = {"link": link, "active": state == 1}
            for counter, name in LINK_ERRORS.items():
                row[name] = self._call(lambda link=link, c=counter: n.nvmlDeviceGetNvLinkErrorCounter(handle, link, c))
            found.append(row)
        return found or None

    def _processes(self, handle):
        if isinstance(handle, dict):
            return None
        # by its version: the plain name refuses to work when driver and pynvml are of different ages
        got = self._call(lambda: self._n.nvmlDeviceGetComputeRunningProcesses_v3(handle))
        if got is None:
            got = self._call(lambda: self._n.nvmlDeviceGetComputeRunningProcesses_v2(handle))
        if not isinstance(got, (list, tuple)):
            return None
        return [
            {
                "pid": p.pid,
                "name": self._name_of(p.pid),
                "used_memory": mib(p.usedGpuMemory) if p.usedGpuMemory else None,
            }
            for p in got
        ]


def mib(size):
    """Bytes as nvidia-smi's MiB."""
    return int(size / MIB)


def mask(bits):
    """A bit mask as nvidia-smi writes it."""
    return "0x%016X" % bits


def text(value):
    """pynvml gave bytes before version 11."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
