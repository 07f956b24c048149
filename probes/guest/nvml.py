"""GPU values by NVML, through the pynvml module that came along; the same names and units as nvidia-smi's.

Three things are kept apart: a value, `None` for "not supported by this card or driver", and {"error": …} for a read
that failed. What only NVML knows stands under `nvml` (beyond.py).
"""

import base64
import sys
import types

from guest.ask import Failed

MIB = 1024.0 * 1024.0
# return codes that mean "not with this card or this driver": not supported, function not found, ECC of a vGPU, a
# structure newer than the driver, deprecated
ABSENT = {3, 13, 22, 25, 26}
# nvmlDeviceGetFieldValues: nanoseconds with a clock-event reason set -> nvidia-smi's counters in microseconds
REASON_TIME = {
    74: "sw_power_cap", 76: "sync_boost", 269: "sw_thermal_slowdown", 270: "hw_thermal_slowdown",
    271: "hw_power_brake_slowdown",
}  # fmt: skip
FIELDS = {82: "temperature.memory", 186: "power.draw.instant", 230: "gpu_recovery_action"}
FIELDS.update({number: "clocks_event_reasons_counters." + reason for number, reason in REASON_TIME.items()})
UNIONS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
# numbers of NVML's enumerations in nvidia-smi's words
ON = {0: "Disabled", 1: "Enabled"}
COMPUTE = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
PENDING = {0: "No", 1: "Yes"}
ADDRESSING = {0: "None", 1: "HMM", 2: "ATS"}
RECOVERY = {
    0: "None", 1: "Reset", 2: "Reboot", 3: "Drain P2P", 4: "Drain and Reset", 5: "Recover IMEX Domain", 6: "Bus Reset",
    7: "System Reboot",
}  # fmt: skip
FABRIC = {0: None, 1: "Not Started", 2: "In Progress", 3: "Completed"}
REMAPPED = (
    "remapped_rows.correctable", "remapped_rows.uncorrectable", "remapped_rows.pending", "remapped_rows.failure",
)  # fmt: skip


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
        raise Failed("NVML: %s" % words(module, e))
    return module


def words(n, e):
    """The driver's own words for a return code, which nvidia-smi prints as well; pynvml's where it has none."""
    try:
        return text(n.nvmlErrorString(e.value))
    except n.NVMLError:  # there is no library to ask
        return str(e)


def answer(n, ask, *about):
    """A value, None for what this card or driver does not have, {"error": …} for a read that failed."""
    try:
        return ask(*about)
    except n.NVMLError as e:
        return None if e.value in ABSENT else {"error": words(n, e)}
    except AttributeError:  # a name that this pynvml does not have
        return None
    except ValueError as e:  # a text that is none
        return {"error": str(e)}


def got(value):
    """Whether there is something to look into."""
    return value is not None and not isinstance(value, dict)


def named(table, number):
    """The word for a number of an enumeration; one that is too new for us is a read that failed."""
    return table[number] if number in table else {"error": "%s is a value we do not know" % number}


class Nvml:
    """Asks one host's NVML."""

    source = "nvml"

    def __init__(self, module, name_of):
        self.module, self._name_of = module, name_of
        count = self._call(module.nvmlDeviceGetCount)
        if not isinstance(count, int) or count == 0:
            raise Failed("NVML: %s" % (count["error"] if isinstance(count, dict) else "it lists no GPU"))
        self.handles = [(i, self._call(module.nvmlDeviceGetHandleByIndex, i)) for i in range(count)]
        driver = self._call(module.nvmlSystemGetDriverVersion)
        self.driver_version = text(driver) if got(driver) else None
        cuda = self._call(module.nvmlSystemGetCudaDriverVersion_v2)
        self.cuda_version = "%d.%d" % (cuda // 1000, cuda % 1000 // 10) if isinstance(cuda, int) else None
        self.fixed = [self._fixed(i, h) for i, h in self.handles]
        self._rows, self._without = self._live_rows(), {}  # index -> names that a card does not have

    def live(self, whole=True):
        """Values of this moment of every GPU; not `whole`: without asking again for what a card did not have before."""
        return [self._live(i, h, whole) for i, h in self.handles]

    def _call(self, ask, *about):
        return answer(self.module, ask, *about)

    def _read(self, rows, handle):
        if isinstance(handle, dict) or handle is None:  # the card did not even give a handle
            return {name: handle for name, _ in rows}
        return {name: answer(self.module, ask, handle) for name, ask in rows}

    def _fixed(self, index, handle):
        n = self.module
        rows = [
            ("uuid", lambda h: text(n.nvmlDeviceGetUUID(h))),
            ("name", lambda h: text(n.nvmlDeviceGetName(h))),
            ("pci.bus_id", lambda h: text(n.nvmlDeviceGetPciInfo(h).busId)),
            ("driver_version", lambda h: self.driver_version),
            ("vbios_version", lambda h: text(n.nvmlDeviceGetVbiosVersion(h))),
            ("compute_cap", lambda h: "%d.%d" % tuple(n.nvmlDeviceGetCudaComputeCapability(h))),
            ("memory.total", lambda h: mib(self._memory(h).total)),
            ("clocks.max.sm", lambda h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM)),
            ("clocks.max.mem", lambda h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_MEM)),
            ("clocks.applications.gr", lambda h: n.nvmlDeviceGetApplicationsClock(h, n.NVML_CLOCK_GRAPHICS)),
            ("clocks.applications.mem", lambda h: n.nvmlDeviceGetApplicationsClock(h, n.NVML_CLOCK_MEM)),
            ("power.default_limit", lambda h: watts(n.nvmlDeviceGetPowerManagementDefaultLimit(h))),
            ("power.min_limit", lambda h: watts(n.nvmlDeviceGetPowerManagementLimitConstraints(h)[0])),
            ("power.max_limit", lambda h: watts(n.nvmlDeviceGetPowerManagementLimitConstraints(h)[1])),
            ("pcie.link.gen.max", n.nvmlDeviceGetMaxPcieLinkGeneration),
            ("pcie.link.gen.gpumax", lambda h: n.nvmlDeviceGetGpuMaxPcieLinkGeneration(h)),
            ("pcie.link.width.max", n.nvmlDeviceGetMaxPcieLinkWidth),
            ("mig.mode.current", lambda h: named(ON, n.nvmlDeviceGetMigMode(h)[0])),
            ("ecc.mode.current", lambda h: named(ON, n.nvmlDeviceGetEccMode(h)[0])),
            ("persistence_mode", lambda h: named(ON, n.nvmlDeviceGetPersistenceMode(h))),
            ("compute_mode", lambda h: named(COMPUTE, n.nvmlDeviceGetComputeMode(h))),
            ("addressing_mode", lambda h: named(ADDRESSING, n.nvmlDeviceGetAddressingMode(h))),
            ("clocks_event_reasons.supported", lambda h: mask(self._supported(h))),
            ("retired_pages.pending", lambda h: named(PENDING, n.nvmlDeviceGetRetiredPagesPendingStatus(h))),
            ("ecc.errors.corrected.aggregate.total", lambda h: n.nvmlDeviceGetTotalEccErrors(h, 0, 1)),
            ("ecc.errors.uncorrected.aggregate.total", lambda h: n.nvmlDeviceGetTotalEccErrors(h, 1, 1)),
            ("fabric.state", lambda h: named(FABRIC, self._fabric(h).state)),
            ("fabric.status", self._fabric_status),
        ]
        gpu = {"index": index}
        gpu.update(self._read(rows, handle))
        gpu.update(self._remapped(handle))
        return gpu

    def _live_rows(self):
        n = self.module
        return [
            ("pstate", lambda h: "P%d" % n.nvmlDeviceGetPerformanceState(h)),
            ("clocks.sm", lambda h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM)),
            ("clocks.mem", lambda h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_MEM)),
            ("clocks.gr", lambda h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_GRAPHICS)),
            ("clocks_event_reasons.active", lambda h: mask(self._reasons(h))),
            ("power.draw", lambda h: watts(n.nvmlDeviceGetPowerUsage(h))),
            ("power.limit", lambda h: watts(n.nvmlDeviceGetPowerManagementLimit(h))),
            ("enforced.power.limit", lambda h: watts(n.nvmlDeviceGetEnforcedPowerLimit(h))),
            ("temperature.gpu", lambda h: n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU)),
            ("temperature.gpu.tlimit", lambda h: n.nvmlDeviceGetMarginTemperature(h)),
            ("pcie.link.gen.current", n.nvmlDeviceGetCurrPcieLinkGeneration),
            ("pcie.link.width.current", n.nvmlDeviceGetCurrPcieLinkWidth),
            ("fan.speed", n.nvmlDeviceGetFanSpeed),
            ("ecc.errors.corrected.volatile.total", lambda h: n.nvmlDeviceGetTotalEccErrors(h, 0, 0)),
            ("ecc.errors.uncorrected.volatile.total", lambda h: n.nvmlDeviceGetTotalEccErrors(h, 1, 0)),
            ("processes", self._processes),
            # one question, several answers
            ("utilization", n.nvmlDeviceGetUtilizationRates),
            ("memory", self._memory),
        ]

    def _live(self, index, handle, whole):
        # a card says "not supported" at the price of a value, many times a second
        without = set() if whole else self._without.get(index, set())
        found = self._read([row for row in self._rows if row[0] not in without], handle)
        found.update(self._fields(handle, [f for f, name in FIELDS.items() if name not in without]))
        if whole:
            self._without[index] = {name for name, v in found.items() if v is None}
        found.update((name, None) for name in without)
        gpu = {"index": index}
        busy, memory = found.pop("utilization"), found.pop("memory")
        gpu.update(found)
        gpu["utilization.gpu"] = busy.gpu if got(busy) else busy
        gpu["utilization.memory"] = busy.memory if got(busy) else busy
        for part in ("used", "free", "reserved"):
            # version 1 of the structure does not tell what is reserved
            size = getattr(memory, part, None) if got(memory) else memory
            gpu["memory." + part] = mib(size) if isinstance(size, int) else size
        return gpu

    def _memory(self, handle):
        # version 1 counts what the driver reserves as used
        n = self.module
        try:
            return n.nvmlDeviceGetMemoryInfo(handle, n.nvmlMemory_v2)
        except (n.NVMLError_FunctionNotFound, AttributeError):
            return n.nvmlDeviceGetMemoryInfo(handle)

    def _reasons(self, handle):
        try:
            return self.module.nvmlDeviceGetCurrentClocksEventReasons(handle)
        except self.module.NVMLError_FunctionNotFound:  # before driver 535
            return self.module.nvmlDeviceGetCurrentClocksThrottleReasons(handle)

    def _supported(self, handle):
        try:
            return self.module.nvmlDeviceGetSupportedClocksEventReasons(handle)
        except self.module.NVMLError_FunctionNotFound:  # before driver 535
            return self.module.nvmlDeviceGetSupportedClocksThrottleReasons(handle)

    def _fabric(self, handle):
        """State of the NVLink fabric; a card without one says so in the state."""
        n = self.module
        info = n.c_nvmlGpuFabricInfo_v2_t()
        got_it = answer(n, n.nvmlDeviceGetGpuFabricInfoV, handle, n.byref(info))
        if got_it is None:  # before driver 545
            info = n.c_nvmlGpuFabricInfo_t()
            n.nvmlDeviceGetGpuFabricInfo(handle, n.byref(info))
        return info

    def _fabric_status(self, handle):
        info = self._fabric(handle)
        # while it is still being set up the status says nothing
        return text(self.module.nvmlErrorString(info.status)) if info.state == 3 else None

    def _fields(self, handle, numbers):
        names = [FIELDS[number] for number in numbers]
        if not numbers or not got(handle):
            return dict.fromkeys(names, handle)
        found = self._call(self.module.nvmlDeviceGetFieldValues, handle, numbers)
        if not got(found):
            return dict.fromkeys(names, found)
        return {FIELDS[number]: self._field(number, field) for number, field in zip(numbers, found)}

    def _field(self, number, field):
        code = field.nvmlReturn
        if code == 0:
            return in_units(number, getattr(field.value, UNIONS[field.valueType]))
        if code in ABSENT or code == 2:  # invalid argument: a number that this driver does not know
            return None
        return {"error": words(self.module, self.module.NVMLError(code))}

    def _remapped(self, handle):
        if not got(handle):
            return dict.fromkeys(REMAPPED, handle)
        found = self._call(self.module.nvmlDeviceGetRemappedRows, handle)
        return dict(zip(REMAPPED, found)) if got(found) else dict.fromkeys(REMAPPED, found)

    def _processes(self, handle):
        n = self.module
        # by its version: the plain name refuses to work when driver and pynvml are of different ages
        found = answer(n, n.nvmlDeviceGetComputeRunningProcesses_v3, handle)
        if found is None:
            found = n.nvmlDeviceGetComputeRunningProcesses_v2(handle)
        if isinstance(found, dict):
            return found
        return [
            {"pid": p.pid, "name": self._name_of(p.pid), "used_memory": None if p.usedGpuMemory is None
             else mib(p.usedGpuMemory)}
            for p in found
        ]  # fmt: skip


def in_units(number, value):
    """A field's value in nvidia-smi's unit."""
    if number in REASON_TIME:
        return int(value) // 1000
    if number == 186:
        return watts(value)
    return named(RECOVERY, value) if number == 230 else int(value)


def mib(size):
    """Bytes as nvidia-smi's MiB."""
    return int(size / MIB)


def watts(milliwatts):
    """As nvidia-smi writes them."""
    return round(milliwatts / 1000.0, 2)


def mask(bits):
    """A bit mask as nvidia-smi writes it."""
    return "0x%016X" % bits


def text(value):
    """pynvml gave bytes before version 11."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
