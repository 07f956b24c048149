"""Lays out the made-up root of a simulated host: the files a collector reads, where a Linux host has them.

Everything stands under one folder, `/proc/2101/cmdline` as `FOLDER/root/proc/2101/cmdline`; links hold absolute paths
of the made-up host, as they would there. Beside the root lie the commands of the host (`bin`) and what they answer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

from dflash_doctor.simulate import commands
from dflash_doctor.simulate.commands import CONTAINER, bus_id
from dflash_doctor.simulate.logs import API, CORE, facts, fill, worker_pid
from dflash_doctor.simulate.scenario import Scenario

PYTHON = "python3.12"  # of the made-up engine
SITE = f"opt/venv/lib/{PYTHON}/site-packages"


_TCP_HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
_TCP_ROW = (
    "   0: 00000000:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 38521 1 "
    "0000000000000000 100 0 0 10 0\n"
)


class Root:
    """The files of one simulated host."""

    def __init__(self, folder: Path, scenario: Scenario, port: int, started_at: float) -> None:
        self.folder, self.scenario, self.port = folder, scenario, port
        self.started_at = started_at
        self.root, self.bin = folder / "root", folder / "bin"
        self._busy_file = folder / "busy"
        self._busy_s = 0.0
        self._busy_since: float | None = None

    @property
    def log_file(self) -> Path:
        """Where the engine writes."""
        if self.scenario.log.path is None:
            return self.folder / "container.log"
        return self.root / self.scenario.log.path.lstrip("/")

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a command that runs on this host."""
        return {
            "PATH": str(self.bin),
            "HOME": str(self.root / "root"),
            "USER": "root",
            "LANG": "C.UTF-8",
            "DFLASH_DOCTOR_ROOT": str(self.root),
            "DFLASH_DOCTOR_COMMANDS": str(self.bin),
        }

    def lay_out(self) -> None:
        """Write every file."""
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self.log_file.touch()
        (self.root / "root").mkdir(parents=True, exist_ok=True)
        self.busy(False)
        self._machine()
        self._packages()
        self._model()
        for pid, parent, name, argv in self._processes():
            self._process(pid, parent, name, argv)
        commands.set_up(self.folder, self.scenario, self.argv(), self._engine_environ(), self.log_file, self.started_at)

    def busy(self, on: bool) -> None:
        """Tell the stand-in commands whether the GPUs work."""
        now = time.time()
        if self._busy_since is not None:
            self._busy_s += now - self._busy_since
        self._busy_since = now if on else None
        text = f"{self._busy_s:.3f}" + (f" {now:.3f}" if on else "")
        self._replace(self._busy_file, text)
        if not on:
            self._cpu_time()

    # -- what the engine was launched with ----------------------------------------------------------------------------

    def argv(self) -> list[str]:
        """The launch line."""
        known = facts(self.scenario, self.port)
        words = [str(fill(word, known)) for word in self.scenario.entrypoint]
        for flag, value in {**self.scenario.flags, "port": self.port}.items():
            if value is False:
                continue
            words.append(f"--{flag}")
            if isinstance(value, Mapping):
                words.append(json.dumps(value, separators=(",", ":")))
            elif isinstance(value, list):
                words += [str(v) for v in value]
            elif value is not True:
                words.append(str(value))
        return words

    def _processes(self) -> list[tuple[int, int, str, list[str]]]:
        """(pid, parent, comm, argv) of the engine's processes; children carry the title that the engine gave them."""
        vllm = self.scenario.engine == "vllm"
        core = "VLLM::EngineCore" if vllm else "sglang::detokenizer"
        ranks = range(self.scenario.tp)
        one = self.scenario.tp == 1
        if vllm:
            names = ["VLLM::Worker" if one else f"VLLM::Worker_TP{r}" for r in ranks]
        else:
            names = ["sglang::scheduler" if one else f"sglang::scheduler_TP{r}" for r in ranks]
        rows = [(API, 1, "vllm" if vllm else "python", self.argv()), (CORE, API, core[:15], [core])]
        if self.scenario.fails is not None:
            return rows[:1] if self.scenario.fails.process == "hangs" else []
        return rows + [
            (worker_pid(r), CORE if vllm else API, name[:15], [name]) for r, name in zip(ranks, names, strict=True)
        ]

    def _process(self, pid: int, parent: int, name: str, argv: list[str]) -> None:
        s, at = self.scenario, f"proc/{pid}"
        cpus = s.machine.affinity or f"0-{s.machine.cpus - 1}"
        self._write(f"{at}/cmdline", "\0".join(argv) + "\0")
        self._write(f"{at}/environ", "".join(f"{k}={v}\0" for k, v in self._engine_environ().items()))
        self._write(f"{at}/comm", name + "\n")
        self._write(f"{at}/stat", self._stat(pid, parent, name))
        self._write(
            f"{at}/status",
            f"Name:\t{name}\nState:\tS (sleeping)\nPid:\t{pid}\nPPid:\t{parent}\nUid:\t0\t0\t0\t0\nThreads:\t64\n"
            f"Cpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-{s.machine.numa_nodes - 1}\n",
        )
        self._write(f"{at}/cgroup", f"0::{self._cgroup}\n")
        self._write(f"{at}/maps", f"7f0000000000-7f0010000000 r-xp 0 08:01 1 /{SITE}/nvidia/nccl/lib/libnccl.so.2\n")
        serving = pid == API and s.fails is None
        self._write(f"{at}/net/tcp", _TCP_HEAD + (_TCP_ROW.format(port=self.port) if serving else ""))
        if serving:
            self._link(f"{at}/fd/7", "socket:[38521]")
        log = s.log.path or "pipe:[48213]"
        self._link(f"{at}/fd/0", "/dev/null")
        self._link(f"{at}/fd/1", log)
        self._link(f"{at}/fd/2", log)
        self._link(f"{at}/exe", f"/opt/venv/bin/{PYTHON}")
        self._link(f"{at}/cwd", "/root")
        self._link(f"{at}/root", "/")

    def _stat(self, pid: int, parent: int, name: str) -> str:
        # pid (comm) state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime cutime cstime
        # priority nice threads itrealvalue starttime
        m = self.scenario.machine
        cores = {API: m.cpu_api, CORE: m.cpu_core}.get(pid, m.cpu_worker)
        used = 9000 + int(100 * cores * self._busy_s)  # in hundredths of a second, as everything here
        ticks = int((self.started_at - self._booted_at) * 100)
        return f"{pid} ({name}) S {parent} {API} {API} 0 -1 4194304 0 0 0 0 {used} 700 0 0 20 0 64 0 {ticks} 0 0\n"

    def _cpu_time(self) -> None:
        """CPU time of the processes, and the periods in which their quota cut them off, go on with the work."""
        for pid, parent, name, _ in self._processes():
            file = self.root / f"proc/{pid}/stat"
            if file.exists():
                self._replace(file, self._stat(pid, parent, name))
        periods = 1000 + int(10 * self._busy_s)  # of 100 ms
        cut = int((periods - 1000) * self.scenario.machine.throttled)
        file = self.root / f"sys/fs/cgroup{self._cgroup}/cpu.stat"
        if file.exists():
            self._replace(file, f"usage_usec 97000000\nnr_periods {periods}\nnr_throttled {cut}\n"
                                f"throttled_usec {cut * 50000}\n")  # fmt: skip

    def _engine_environ(self) -> dict[str, str]:
        return {"PATH": "/opt/venv/bin:/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8", **self.scenario.environ}

    # -- the machine --------------------------------------------------------------------------------------------------

    @property
    def _booted_at(self) -> float:
        return self.started_at - 86_400.0 * 3

    @property
    def _cgroup(self) -> str:
        if self.scenario.container:
            return f"/system.slice/docker-{CONTAINER}.scope"
        return f"/system.slice/{self.scenario.engine}.service"

    def _machine(self) -> None:
        m = self.scenario.machine
        cpus = "".join(
            f"processor\t: {i}\nvendor_id\t: AuthenticAMD\nmodel name\t: {m.cpu_model}\ncpu MHz\t\t: {m.mhz:.3f}\n"
            f"physical id\t: {i * m.sockets // m.cpus}\n\n"
            for i in range(m.cpus)
        )
        total = int(m.memory_gib * 1024 * 1024)
        self._write("proc/cpuinfo", cpus)
        self._write("proc/meminfo", f"MemTotal:       {total} kB\nMemFree:        {total // 4} kB\n"
                                    f"MemAvailable:   {total * 3 // 4} kB\n")  # fmt: skip
        self._write("proc/loadavg", " ".join(f"{x:.2f}" for x in m.load) + " 2/900 4242\n")
        self._write("proc/uptime", f"{time.time() - self._booted_at:.2f} 0.00\n")
        idle = int((time.time() - self._booted_at) * 100)
        self._write("proc/stat", f"cpu  90000 0 20000 {idle * m.cpus} 100 0 0 0 0 0\nbtime {int(self._booted_at)}\n")
        self._write("proc/version", f"Linux version {m.kernel} (buildd@lcy02-amd64-080)\n")
        self._write("proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-{m.kernel} root=/dev/nvme0n1p2 ro\n")
        self._write("proc/1/cgroup", "0::/init.scope\n")
        self._write("proc/1/cmdline", "/sbin/init\0")
        self._write("proc/sys/kernel/osrelease", m.kernel + "\n")
        self._write("proc/sys/kernel/version", "#71-Ubuntu SMP PREEMPT_DYNAMIC\n")
        self._write("proc/sys/kernel/hostname", m.hostname + "\n")
        self._write("proc/sys/kernel/ostype", "Linux\n")
        self._write("etc/hostname", m.hostname + "\n")
        self._write("etc/os-release", 'NAME="Ubuntu"\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.2 LTS"\n')
        self._write("sys/class/dmi/id/sys_vendor", "Supermicro\n")
        self._write("sys/class/dmi/id/product_name", "AS -5014A-TT\n")
        self._write("sys/class/dmi/id/bios_version", "2.3\n")
        self._write("sys/devices/system/cpu/online", f"0-{m.cpus - 1}\n")
        for i in range(m.cpus):
            at = f"sys/devices/system/cpu/cpu{i}/cpufreq"
            self._write(f"{at}/scaling_governor", m.governor + "\n")
            self._write(f"{at}/scaling_cur_freq", f"{int(m.mhz * 1000)}\n")
            self._write(f"{at}/cpuinfo_max_freq", f"{int(m.max_mhz * 1000)}\n")
        per_node = max(1, m.cpus // m.numa_nodes)
        for node in range(m.numa_nodes):
            at = f"sys/devices/system/node/node{node}"
            self._write(f"{at}/cpulist", f"{node * per_node}-{(node + 1) * per_node - 1}\n")
            self._write(f"{at}/meminfo", f"Node {node} MemTotal:       {total // m.numa_nodes} kB\n")
        self._write("sys/devices/system/node/online", f"0-{m.numa_nodes - 1}\n" if m.numa_nodes > 1 else "0\n")
        at = f"sys/fs/cgroup{self._cgroup}"
        self._write(f"{at}/cpu.max", m.cpu_max + "\n")
        self._write(f"{at}/cpu.stat", "usage_usec 97000000\nnr_periods 1000\nnr_throttled 0\nthrottled_usec 0\n")
        for index in range(self.scenario.gpus.count):
            at = f"sys/bus/pci/devices/{bus_id(index)[4:].lower()}"
            self._write(f"{at}/numa_node", f"{index * m.numa_nodes // max(1, self.scenario.gpus.count)}\n")

    def _packages(self) -> None:
        for name, version in self.scenario.packages.items():
            folder = f"{SITE}/{name.replace('-', '_')}-{version}.dist-info"
            self._write(f"{folder}/METADATA", f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")

    def _model(self) -> None:
        for weights in (self.scenario.model, self.scenario.drafter):
            if weights is not None and weights.config:
                self._write(f"{weights.path.strip('/')}/config.json", json.dumps(weights.config, indent=2) + "\n")

    # -- files --------------------------------------------------------------------------------------------------------

    def _write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def _replace(self, file: Path, text: str) -> None:
        beside = file.with_name(file.name + ".new")  # replaced whole: a reader never sees half of it
        beside.write_text(text, encoding="utf-8")
        beside.replace(file)

    def _link(self, path: str, target: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)
