"""GPU values by `nvidia-smi --query-gpu`, for hosts where NVML cannot be loaded.

    0, NVIDIA RTX A6000, P2, 1785, 7601, 0x0000000000000004, 262.01, [N/A]

`[N/A]` and `[Not Supported]` are not supported (null); `[Unknown Error]`, `ERR!` and their like are reads that failed.
One unknown name fails the whole query, and names come and go with drivers: an unknown one is dropped and asked no more.
"""

import re

from guest.ask import Failed

OLDER = {"clocks_event_reasons.": "clocks_throttle_reasons."}  # before driver 535
UNKNOWN = re.compile(r"Field [\"'](?P<name>[\w.]+)[\"'] is not a valid field")
NAME = re.compile(r'"([a-z_]+(?:\.[a-z_]+)*)"')  # "clocks_event_reasons.active" or "clocks_throttle_reasons.active"
ABSENT = {
    "n/a", "not supported", "unsupported", "", "requested functionality has been deprecated", "not available",
}  # fmt: skip
TROUBLE = re.compile(
    r"\[.*\]\Z|ERR!|.{0,80}(?:error|insufficient permissions|requires reset|is lost)|unable to determine", re.I
)
# 1785, 262.01, -3; with a unit where `nounits` is not obeyed, with a comma where numbers are localized
NUMBER = re.compile(r"(?P<n>[-+]?\d{1,18})(?:[.,](?P<part>\d{1,9}))?(?: ?(?:[MGk]?Hz|m?W|[KMG]iB|%|C|x|us))?\Z")
TEXTS = {"uuid", "name", "pci.bus_id", "driver_version", "vbios_version", "compute_cap", "pstate"}
# Unable to determine the device handle for GPU2: 0000:41:00.0: GPU is lost.  Reboot the system to recover this GPU
# Unable to determine the device handle for GPU 0000:41:00.0: Insufficient Permissions
NO_HANDLE = re.compile(
    r"Unable to determine the device handle for GPU ?\d*:? ?"
    r"(?P<domain>[0-9A-Fa-f]{4,8}):(?P<bus>[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d): (?P<why>.{1,200})"
)
CSV = "--format=csv,noheader,nounits"
REMAPPED = (
    "remapped_rows.correctable", "remapped_rows.uncorrectable", "remapped_rows.pending", "remapped_rows.failure",
)  # fmt: skip
WORDS = {"yes": 1, "no": 0}  # pending and failure, as some drivers write them
# 0 is well; the others are its words for "one of the cards does not answer": it still prints the others
STATUSES = (0, 2, 4, 14, 15, 255)


def value(name, text):
    """Number, text, None for not supported, {"error": …} for a read that failed."""
    text = text.strip()
    if text.strip("[]").lower() in ABSENT:
        return None
    if name in TEXTS:
        return {"error": text.strip("[]")} if text.startswith("[") or text == "ERR!" else text
    if text.startswith("0x"):
        return text
    number = NUMBER.match(text)
    if number is not None:
        part = number.group("part")
        return float("%s.%s" % (number.group("n"), part)) if part else int(number.group("n"))
    return {"error": text.strip("[]")} if TROUBLE.match(text) else text


def failing(names, why):
    """Every one of these reads failed."""
    return {name: {"error": why} for name in names}


class Smi:
    """Asks one host's nvidia-smi."""

    source = "nvidia-smi"
    cuda_version = None  # `-q -x` tells it

    def __init__(self, ground, seconds, once, live):
        self._ground, self._seconds, self._names = ground, seconds, live
        self._spelled = {}  # a name as this driver spells it; None: it does not know it
        self._known = None  # every name that --help-query-gpu lists, once somebody had to look
        self.fixed = []
        self.fixed = self._query(once)
        self.driver_version = next(
            (g["driver_version"] for g in self.fixed if isinstance(g.get("driver_version"), str)), None
        )
        self._remapped()

    def live(self, whole=True):
        """Values of this moment of every GPU; `whole` is nothing to nvidia-smi, which is asked for all at once."""
        gpus = self._query(self._names)
        processes = self._processes()
        for gpu in gpus:
            uuid = next((f.get("uuid") for f in self.fixed if f["index"] == gpu["index"]), None)
            if "error" in processes:
                gpu["processes"] = processes
            elif isinstance(uuid, str):
                gpu.setdefault("processes", processes.get(uuid, []))
        return gpus

    def slices(self):
        """Lines about MIG devices, when a card is in that mode."""
        if not any(g.get("mig.mode.current") == "Enabled" for g in self.fixed):
            return []
        out = self._run(["-L"])
        #   MIG 1g.10gb       Device  1: (UUID: MIG-…)
        lines, gpu = [], "GPU ?"
        for line in out.splitlines():
            if line.startswith("GPU "):
                gpu = line.partition(" (UUID")[0]
            elif line.strip().startswith("MIG "):
                found = re.match(r"\s*(MIG \S+)\s+Device\s+(\d+): (.*)", line)
                lines.append("%s %s, device %s %s" % ((gpu,) + found.groups()) if found else line.strip())
        return lines

    def _run(self, arguments, accept=(0,)):
        argv = ["nvidia-smi"] + arguments
        try:
            return self._ground.run(argv, self._seconds, accept=accept, both=True).decode("utf-8", "replace")
        except Failed as e:
            # fifty names in front of what it said would hide it
            raise Failed("nvidia-smi: " + str(e).replace(" ".join(argv) + ": ", "").replace("nvidia-smi: ", ""))

    # -- the query ----------------------------------------------------------------------------------------------------

    def _query(self, names):
        for _ in range(len(names)):
            asked = [(n, s) for n, s in ((n, self._spelled.get(n, n)) for n in names) if s is not None]
            out = self._run(["--query-gpu=index," + ",".join(s for _, s in asked), CSV], STATUSES)
            unknown = UNKNOWN.search(out)
            if unknown is None:
                return self._rows(out, [n for n, _ in asked])
            self._forget(unknown.group("name"), asked)
        raise Failed("nvidia-smi: it knows none of the values asked for")

    def _forget(self, spelled, asked):
        """Ask for a name by its older spelling, or no more; and for all others that this driver does not list."""
        if self._known is None:
            try:
                self._known = set(NAME.findall(self._run(["--help-query-gpu"])))
            except Failed:
                self._known = set()
        strange = [(n, s) for n, s in asked if s == spelled or (len(self._known) > 20 and s not in self._known)]
        if not any(s == spelled for _, s in strange):
            raise Failed("nvidia-smi: it does not know %s" % spelled)
        for name, s in strange:
            older = next((name.replace(n, o) for n, o in OLDER.items() if name.startswith(n)), None)
            if older == s or (len(self._known) > 20 and older not in self._known):
                older = None
            self._spelled[name] = older

    def _rows(self, out, names):
        """One row a card; what cannot be read of a row, or of a card, is an error in each of its values."""
        gpus, lost, odd = {}, [], []
        lines = out.splitlines()
        for i, line in enumerate(lines):
            cells = line.split(", ") if ", " in line else line.split(",")
            handle = NO_HANDLE.match(line)
            if handle is not None:
                lost.append(handle)
            elif cells[0].strip().isdigit() and len(cells) > 1:
                cut = i == len(lines) - 1 and not out.endswith("\n")
                gpus[int(cells[0])] = self._row(names, cells[1:], cut)
            elif line.strip():
                odd.append(line.strip())
        if not gpus:
            said = [handle.group(0) for handle in lost] + odd
            raise Failed("nvidia-smi: %s" % (" ".join(said)[:300] or "it printed nothing"))
        if not self.fixed and all(isinstance(v, dict) for row in gpus.values() for v in row.values()):
            raise Failed("nvidia-smi: %s" % next(v["error"] for row in gpus.values() for v in row.values()))
        whole = names + ["processes"]
        for handle in lost:
            gpus.setdefault(self._place(handle, gpus), failing(whole, handle.group("why").strip()))
        for known in self.fixed:
            gpus.setdefault(known["index"], failing(whole, "nvidia-smi does not list it any more"))
        return [dict(gpus[i], index=i) for i in sorted(gpus)]

    @staticmethod
    def _row(names, cells, cut):
        if len(cells) == len(names) and not cut:
            return {n: value(n, c) for n, c in zip(names, cells)}
        if cut and len(cells) <= len(names):  # the last one may be a piece of itself
            cells = cells[:-1]
            found = {n: value(n, c) for n, c in zip(names, cells)}
            return dict(failing(names, "nvidia-smi's line is cut off"), **found)
        return failing(names, "nvidia-smi printed %d values where %d were asked for" % (len(cells), len(names)))

    def _place(self, handle, gpus):
        """The index of a card that gives no handle: by its bus id, else the first number that is free."""
        for known in self.fixed:
            domain, _, bus = str(known.get("pci.bus_id")).lower().partition(":")
            if bus == handle.group("bus").lower() and domain.endswith(handle.group("domain").lower()):
                return known["index"]
        return next(i for i in range(len(gpus) + 1) if i not in gpus)

    # -- what has queries of its own ------------------------------------------------------------------------------

    def _remapped(self):
        """Remapped rows of each card; a driver without that query leaves them out."""
        try:
            out = self._run(["--query-remapped-rows=gpu_uuid," + ",".join(REMAPPED), CSV], STATUSES)
        except Failed:
            return
        found = {}
        for line in out.splitlines():
            cells = line.split(", ")
            if len(cells) == len(REMAPPED) + 1:
                words = [WORDS.get(c.strip().lower(), c) for c in cells[1:]]
                values = [w if isinstance(w, int) else value("", w) for w in words]
                found[cells[0].strip()] = dict(zip(REMAPPED, values))
        for gpu in self.fixed:
            uuid = gpu.get("uuid")
            # a card that has no such thing is not listed
            gpu.update(found.get(uuid, dict.fromkeys(REMAPPED)) if isinstance(uuid, str) else
                       dict.fromkeys(REMAPPED, uuid))  # fmt: skip

    def _processes(self):
        """{uuid: [process]}, or {uuid: {"error": …}}; without it a neighbour on the card cannot be seen."""
        try:
            out = self._run(["--query-compute-apps=gpu_uuid,pid,process_name,used_memory", CSV], STATUSES)
        except Failed as e:
            return {"error": str(e)}
        found = {}
        for line in out.splitlines():
            cells = line.split(", ")
            if len(cells) < 4:
                continue
            uuid, pid = cells[0].strip(), cells[1].strip()
            if pid.isdigit():
                name = ", ".join(cells[2:-1]).strip().split(" ")[0]
                process = {"pid": int(pid), "name": name, "used_memory": value("used_memory", cells[-1])}
                if isinstance(found.setdefault(uuid, []), list):
                    found[uuid].append(process)
            elif uuid.startswith("GPU-"):
                found[uuid] = value("", pid)
        return found
