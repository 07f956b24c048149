"""The host itself: host.json of the capture. CPU time is measured over the load when there was one."""

import os
import re
import time

from guest.ask import Failed

LONGEST = 64  # rows of processes; an engine with more ranks than that has them all alike


class Machine:
    """Facts of the host, and what its engine's processes used between `begin` and `end`."""

    def __init__(self, ground, engine, everyone):
        self._ground, self._engine = ground, engine
        self._processes = ([engine.head] + engine.family)[:LONGEST] if engine else []
        self._cgroup = self._cgroup_folder(engine.head.pid if engine else os.getpid())
        self.begin()

    def begin(self):
        """From here on CPU time counts."""
        self._since = time.monotonic()
        self._cpu = {p.pid: p.cpu_seconds() for p in self._processes}
        self._throttle = self._throttled()

    def seconds(self):
        """How long CPU time has been counted."""
        return time.monotonic() - self._since

    def facts(self, gpu_of):
        """host.json; `gpu_of` maps pid to the index of the GPU it uses."""
        ground = self._ground
        info = ground.text("/proc/cpuinfo", limit=8 << 20)
        kernel = [ground.text("/proc/sys/kernel/" + n) for n in ("ostype", "osrelease")]
        arch = os.uname().machine if ground.real else None
        load = ground.text("/proc/loadavg").split()[:3]
        memory = dict(re.findall(r"^(\w+):\s+(\d+) kB", ground.text("/proc/meminfo"), re.M))
        frequency = "/sys/devices/system/cpu/cpu0/cpufreq/"
        facts = {
            "hostname": ground.text("/proc/sys/kernel/hostname"),
            "uname": " ".join(k for k in kernel + [arch or ""] if k),
            "virt": self._virt(info),
            "cpu_model": _first(info, r"^model name\s*:\s*(.+)$") or ground.text("/sys/firmware/devicetree/base/model"),
            "cpus": len(re.findall(r"^processor\s*:", info, re.M)) or None,
            "sockets": len(set(re.findall(r"^physical id\s*:\s*(\d+)", info, re.M))) or None,
            "cpu_mhz": self._mhz(info),
            "cpu_max_mhz": _scaled(ground.text(frequency + "cpuinfo_max_freq")),
            "governor": ground.text(frequency + "scaling_governor"),
            "load": [float(x) for x in load if re.match(r"[\d.]+\Z", x)],
            "memory_total_kb": int(memory["MemTotal"]) if "MemTotal" in memory else None,
            "memory_available_kb": int(memory["MemAvailable"]) if "MemAvailable" in memory else None,
            "numa_nodes": self._numa(),
            "gpu_numa_nodes": self._gpu_numa(),
            "cgroup": self._quota(),
            "processes": self._rows(),
            "affinity": self._affinity(gpu_of),
            "bios": ground.text("/sys/class/dmi/id/bios_version"),
            "product": ground.text("/sys/class/dmi/id/product_name"),
            "kernel_cmdline": ground.text("/proc/cmdline"),
            "devices": ["/dev/" + n for n in ground.names("/dev") if re.match(r"nvidia\d+\Z", n)]
            + ["/dev/nvidia-caps-imex-channels/" + n for n in ground.names("/dev/nvidia-caps-imex-channels")],
        }
        if self._engine and self._engine.container:
            facts["container"] = {"id": self._engine.container, "runtime": self._engine.runtime}
        return {k: v for k, v in facts.items() if v not in (None, "", [], {})}

    # -- parts --------------------------------------------------------------------------------------------------------

    def _mhz(self, info):
        """Fastest core of this moment: the one that the engine's own thread is on is rarely the mean."""
        current = [float(m) for m in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", info, re.M)]
        return max(current) if current else _scaled(
            self._ground.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")
        )  # fmt: skip

    def _virt(self, info):
        """`kvm`, `vmware` …, or `none`; as systemd says it, else from what the firmware calls itself."""
        ground = self._ground
        if ground.find("systemd-detect-virt"):
            try:
                said = (
                    ground.run(["systemd-detect-virt", "--vm"], 3.0, accept=(0, 1)).decode("ascii", "replace").strip()
                )
                if said.strip():
                    return said.strip()
            except Failed:  # the firmware's own words do
                pass
        names = " ".join(ground.text("/sys/class/dmi/id/" + n) for n in ("sys_vendor", "product_name"))
        for mark, word in (("KVM", "kvm"), ("QEMU", "kvm"), ("VMware", "vmware"), ("VirtualBox", "oracle"),
                           ("Virtual Machine", "microsoft"), ("Xen", "xen"), ("Amazon EC2", "amazon"),
                           ("Google Compute", "google")):  # fmt: skip
            if mark in names:
                return word
        if re.search(r"^flags\s*:.*\bhypervisor\b", info, re.M):
            return "vm-other"
        return "none" if names.strip() else None

    def _numa(self):
        names = [n for n in self._ground.names("/sys/devices/system/node") if re.match(r"node\d+\Z", n)]
        return {n[4:]: self._ground.text("/sys/devices/system/node/%s/cpulist" % n) for n in names}

    def _gpu_numa(self):
        """{PCI address: NUMA node} of the NVIDIA display devices; without a vendor file, of every device listed."""
        found, base = {}, "/sys/bus/pci/devices"
        for name in self._ground.names(base):
            vendor = self._ground.text("%s/%s/vendor" % (base, name), "0x10de")
            kind = self._ground.text("%s/%s/class" % (base, name), "0x03")
            node = self._ground.text("%s/%s/numa_node" % (base, name))
            if vendor == "0x10de" and kind.startswith("0x03") and re.match(r"\d+\Z", node):
                found[name] = int(node)
        return found

    def _cgroup_folder(self, pid):
        """Folder of the process's CPU controller, version 2 or 1."""
        for line in self._ground.text("/proc/%d/cgroup" % pid).splitlines():
            number, kinds, path = (line.split(":", 2) + ["", ""])[:3]
            for base in ("/sys/fs/cgroup", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu"):
                folder = base + path.rstrip("/")
                if (number == "0" or "cpu" in kinds.split(",")) and self._ground.there(folder + "/cpu.stat"):
                    return folder
        return "/sys/fs/cgroup"

    def _throttled(self):
        stat = dict(re.findall(r"^(\w+) (\d+)$", self._ground.text(self._cgroup + "/cpu.stat"), re.M))
        out = {k: int(stat[k]) for k in ("nr_periods", "nr_throttled", "throttled_usec") if k in stat}
        if "throttled_time" in stat:  # version 1, nanoseconds
            out["throttled_usec"] = int(stat["throttled_time"]) // 1000
        return out

    def _quota(self):
        ground, folder = self._ground, self._cgroup
        quota = ground.text(folder + "/cpu.max")
        if not quota and ground.there(folder + "/cpu.cfs_quota_us"):
            quota = ground.text(folder + "/cpu.cfs_quota_us") + " " + ground.text(folder + "/cpu.cfs_period_us")
            quota = quota.replace("-1 ", "max ")
        if not quota:
            return None
        out = {"cpu_max": quota, "sample_s": round(self.seconds(), 2)}
        now = self._throttled()
        out.update((k, now[k] - self._throttle[k]) for k in now if k in self._throttle)
        pinned = ground.text(folder + "/cpuset.cpus.effective")
        if pinned:
            out["cpuset"] = pinned
        return out

    def _rows(self):
        seconds = self.seconds()
        rows = []
        for p in self._processes:
            row = {"pid": p.pid, "name": p.name, "role": p.role}
            before, now = self._cpu.get(p.pid), p.cpu_seconds()
            if before is not None and now is not None and seconds >= 0.5:
                row["cpu_percent"] = round(100.0 * (now - before) / seconds, 1)
            threads = re.match(r"\d+", p.status().get("Threads", ""))
            if threads:
                row["threads"] = int(threads.group(0))
            rows.append(row)
        return rows

    def _affinity(self, gpu_of):
        rows = []
        for p in self._processes:
            status = p.status()
            if "Cpus_allowed_list" in status:
                row = {"pid": p.pid, "name": p.name, "cpus": status["Cpus_allowed_list"]}
                if p.pid in gpu_of:
                    row["gpu"] = gpu_of[p.pid]
                if status.get("Mems_allowed_list"):
                    row["mems"] = status["Mems_allowed_list"]
                rows.append(row)
        return rows


def _first(text, pattern):
    match = re.search(pattern, text, re.M)
    return match.group(1).strip() if match else None


def _scaled(khz):
    return int(khz) / 1000.0 if khz.isdigit() else None
