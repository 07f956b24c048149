"""GPU values by `nvidia-smi --query-gpu`, for hosts where NVML cannot be loaded.

    0, NVIDIA RTX A6000, P2, 1785, 7601, 0x0000000000000004, 262.01, [N/A]

`[N/A]` and `[Not Supported]` are not supported (null); `[Unknown Error]`, `ERR!` and their like are reads that failed.
One unknown name fails the whole query, and names come and go with drivers: an unknown one is dropped and asked no more.
"""

import re

from guest.ask import Failed

OLDER = {"clocks_event_reasons.": "clocks_throttle_reasons."}  # before driver 535
UNKNOWN = re.compile(r"Field [\"'](?P<name>[\w.]+)[\"'] is not a valid field")
ABSENT = {"[n/a]", "n/a", "[not supported]", "not supported", "[unsupported]", ""}
TROUBLE = re.compile(r"\[.*\]\Z|ERR!|.*(?:error|insufficient permissions|requires reset)", re.I)
TEXTS = {"uuid", "name", "pci.bus_id", "driver_version", "vbios_version", "compute_cap", "pstate"}


def value(name, text):
    """Number, text, None for not supported, {"error": …} for a read that failed."""
    text = text.strip()
    if text.lower() in ABSENT:
        return None
    if TROUBLE.match(text):
        return {"error": text.strip("[]")}
    if name in TEXTS or text.startswith("0x"):
        return text
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


class Smi:
    """Asks one host's nvidia-smi."""

    source = "nvidia-smi"

    def __init__(self, ground, seconds, once, live):
        self._ground, self._seconds, self._names = ground, seconds, live
        self._spelled = {}  # a name as this driver spells it; None: it does not know it
        first = self._query(once)
        if not first:
            raise Failed("nvidia-smi: it lists no GPU")
        self.driver_version = next((g["driver_version"] for g in first if g.get("driver_version")), None)
        self.fixed = first

    def live(self):
        """Values of this moment of every GPU."""
        gpus = self._query(self._names)
        processes = self._processes()
        for gpu in gpus:
            uuid = next((f.get("uuid") for f in self.fixed if f["index"] == gpu["index"]), None)
            if uuid in processes:
                gpu["processes"] = processes[uuid]
        return gpus

    def _query(self, names):
        for _ in range(len(names)):
            spelled = [self._spelled.get(n, n) for n in names]
            asked = [(n, s) for n, s in zip(names, spelled) if s is not None]
            query = "--query-gpu=index," + ",".join(s for _, s in asked)
            ask = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
            # it exits with an error when one card is lost, and still prints the others
            out = self._ground.run(ask, self._seconds, accept=(0, 2, 14, 15, 255), both=True).decode("utf-8", "replace")
            unknown = UNKNOWN.search(out)
            if unknown is None:
                return self._rows(out, [n for n, _ in asked])
            self._forget(unknown.group("name"), asked)
        raise Failed("nvidia-smi: it knows none of the values asked for")

    def _forget(self, spelled, asked):
        for name, s in asked:
            if s == spelled:
                older = next((name.replace(n, o) for n, o in OLDER.items() if name.startswith(n)), None)
                self._spelled[name] = older if older != s else None
                return
        raise Failed("nvidia-smi: it does not know %s" % spelled)

    @staticmethod
    def _rows(out, names):
        gpus, odd = [], []
        for line in out.splitlines():
            cells = line.split(", ") if ", " in line else line.split(",")
            if len(cells) == len(names) + 1 and cells[0].strip().isdigit():
                gpu = {"index": int(cells[0])}
                gpu.update((n, value(n, c)) for n, c in zip(names, cells[1:]))
                gpus.append(gpu)
            elif line.strip():
                odd.append(line.strip())
        if not gpus:
            raise Failed("nvidia-smi: %s" % (" ".join(odd)[:300] or "it printed nothing"))
        return gpus

    def _processes(self):
        """{uuid: [process]}; without it a neighbour on the card cannot be seen, but the rest can."""
        ask = [
            "nvidia-smi",
            "--query-compute-apps=gpu_uuid,pid,process_name,used_memory",
            "--format=csv,noheader,nounits",
        ]
        try:
            out = self._ground.run(ask, self._seconds).decode("utf-8", "replace")
        except Failed:
            return {}
        found = {g.get("uuid"): [] for g in self.fixed}
        for line in out.splitlines():
            cells = line.split(", ")
            if len(cells) >= 4 and cells[1].strip().isdigit():
                name = ", ".join(cells[2:-1]).strip().split(" ")[0]
                process = {"pid": int(cells[1]), "name": name, "used_memory": value("used_memory", cells[-1])}
                found.setdefault(cells[0].strip(), []).append(process)
        return found
