"""What only NVML tells: replays, NVLink link by link, the share each process has, slices of a card, energy, firmware.

Read before and after the load and every few seconds of it: a link that sleeps while nothing runs proves nothing, and
eight cards with eighteen links each are too many questions for every sample.
"""

import time

from guest import nvml

LINKS = 36  # the most that a card may have
LINK_ERRORS = {0: "replay", 1: "recovery", 2: "crc_flit", 3: "crc_data"}
# fields that stand once for each link; the error counters of NVLink 5 replace the four of before
SPEED = {164: "speed_mb_s"}
NEWER_ERRORS = {
    208: "receive_errors", 211: "integrity_errors", 213: "recovered", 214: "recovery_failed", 219: "effective_errors",
    221: "symbol_errors",
}  # fmt: skip
SWITCH = 2
VIRTUAL = {0: "None", 1: "Pass-Through", 2: "VGPU", 3: "Host VGPU", 4: "Host VSGA"}
SHARE_SECONDS = 5.0  # a process's share is averaged over so long; the driver remembers little more


class Beyond:
    """Asks the NVML of an Nvml reader for the rest."""

    def __init__(self, reader):
        self._n, self._handles = reader.module, reader.handles
        self._lasting = {i: self._unchanging(h) for i, h in self._handles}

    def values(self):
        """What stands under `nvml`, by GPU index."""
        n = self._n
        rows = [
            ("pcie_replay", n.nvmlDeviceGetPcieReplayCounter),
            ("energy_mj", n.nvmlDeviceGetTotalEnergyConsumption),
            ("nvlink", self._links),
        ]
        return {i: dict(self._lasting[i], **self._read(rows, h)) for i, h in self._handles}

    def shares(self):
        """{GPU index: {pid: per cent of its multiprocessors' time}}; empty where the driver does not say."""
        found = {}
        since = int((time.time() - SHARE_SECONDS) * 1e6)
        for index, handle in self._handles:
            if nvml.got(handle):
                rows = self._ask(self._n.nvmlDeviceGetProcessUtilization, handle, since)
                found[index] = averages((r.pid, r.smUtil) for r in rows) if nvml.got(rows) else {}
        return found

    def slices(self):
        """Lines about MIG devices, as `nvidia-smi -L` writes them."""
        lines = []
        for index, _ in self._handles:
            devices = self._lasting[index]["mig_devices"]
            for m in devices if isinstance(devices, list) else ():
                if isinstance(m["name"], str):
                    lines.append("GPU %d: %s, device %d (UUID: %s)" % (index, m["name"], m["index"], m["uuid"]))
        return lines

    def _ask(self, ask, *about):
        return nvml.answer(self._n, ask, *about)

    def _read(self, rows, handle):
        if not nvml.got(handle):
            return {name: handle for name, _ in rows}
        return {name: self._ask(ask, handle) for name, ask in rows}

    def _unchanging(self, handle):
        n = self._n
        rows = [
            ("numa_node", lambda h: n.nvmlDeviceGetNumaNodeId(h)),
            ("virtualization", lambda h: nvml.named(VIRTUAL, n.nvmlDeviceGetVirtualizationMode(h))),
            ("gsp_firmware", lambda h: nvml.text(n.nvmlDeviceGetGspFirmwareVersion(h))),
            ("bar1_total", lambda h: nvml.mib(n.nvmlDeviceGetBAR1MemoryInfo(h).bar1Total)),
            ("mig_devices", self._slices),
        ]
        return self._read(rows, handle)

    # -- NVLink -------------------------------------------------------------------------------------------------------

    def _links(self, handle):
        """State, speed, far end and error counters of each link that there is; None without any."""
        n, found = self._n, []
        for link in range(LINKS):
            state = self._ask(n.nvmlDeviceGetNvLinkState, handle, link)
            if state is None or (isinstance(state, dict) and found):
                break  # one after the last is an invalid argument
            if isinstance(state, dict):
                return None if state["error"].lower() == "invalid argument" else state
            found.append(self._link(handle, link, state == 1))
        return found or None

    def _link(self, handle, link, active):
        n = self._n
        row = {"link": link, "active": active}
        row["version"] = self._ask(n.nvmlDeviceGetNvLinkVersion, handle, link)
        row["remote"] = self._ask(self._far_end, handle, link)
        row.update(self._fields(handle, link, SPEED))
        errors = {
            name: self._ask(n.nvmlDeviceGetNvLinkErrorCounter, handle, link, counter)
            for counter, name in LINK_ERRORS.items()
        }
        if all(v is None for v in errors.values()):
            errors = self._fields(handle, link, NEWER_ERRORS)
        row.update(errors)
        return {k: v for k, v in row.items() if v is not None}

    def _far_end(self, handle, link):
        n = self._n
        if n.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link) == SWITCH:
            return "switch"
        return nvml.text(n.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)

    def _fields(self, handle, link, names):
        found = self._ask(self._n.nvmlDeviceGetFieldValues, handle, [(number, link) for number in names])
        if not nvml.got(found):
            return dict.fromkeys(names.values(), found)
        return {
            names[f.fieldId]: getattr(f.value, nvml.UNIONS[f.valueType]) if f.nvmlReturn == 0 else None for f in found
        }

    # -- slices -------------------------------------------------------------------------------------------------------

    def _slices(self, handle):
        """The MIG devices of a card; None where it is whole."""
        n, found = self._n, []
        if n.nvmlDeviceGetMigMode(handle)[0] != 1:
            return None
        for place in range(n.nvmlDeviceGetMaxMigDeviceCount(handle)):
            device = self._ask(n.nvmlDeviceGetMigDeviceHandleByIndex, handle, place)
            if not nvml.got(device):
                continue  # not every place is taken
            row = {"index": place}
            rows = [
                ("uuid", lambda d: nvml.text(n.nvmlDeviceGetUUID(d))),
                ("name", lambda d: nvml.text(n.nvmlDeviceGetName(d))),
                ("multiprocessors", lambda d: n.nvmlDeviceGetAttributes_v2(d).multiprocessorCount),
                ("gpu_slices", lambda d: n.nvmlDeviceGetAttributes_v2(d).gpuInstanceSliceCount),
                ("compute_slices", lambda d: n.nvmlDeviceGetAttributes_v2(d).computeInstanceSliceCount),
                ("memory_mib", lambda d: n.nvmlDeviceGetAttributes_v2(d).memorySizeMB),
            ]
            row.update(self._read(rows, device))
            found.append(row)
        return found


def averages(pairs):
    """The mean of the numbers of each key, whole."""
    sums = {}
    for key, number in pairs:
        total, count = sums.get(key, (0, 0))
        sums[key] = total + number, count + 1
    return {key: round(total / count) for key, (total, count) in sums.items()}
