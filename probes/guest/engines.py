"""The serving processes of the host: vLLM and SGLang, their workers, their ports.

    /opt/venv/bin/python /opt/venv/bin/vllm serve Qwen/Qwen3-8B --port 8000
    python -m vllm.entrypoints.openai.api_server --model ...
    python3 -m sglang.launch_server --model-path ...
    VLLM::EngineCore    VLLM::Worker_TP0    sglang::scheduler_TP1    (titles that the engines give their children)

A shell, docker or ssh that has such a line among its arguments is not the engine. Containers' processes are found too:
the host sees them all.
"""

import re

from guest import ports
from guest.ask import Failed, within

PYTHON = re.compile(r"(?:python|pypy)[\d.]*\Z")
TITLE = re.compile(r"(?P<engine>VLLM|sglang)::(?P<what>[A-Za-z]+)")
MODULE = re.compile(r"(?P<engine>vllm)\.entrypoints\.[\w.]+|(?P<other>sglang)\.(?:launch_server|cli\.main)")
SCRIPT = re.compile(r"(?:^|/)(?:(?P<engine>vllm)/entrypoints/[\w/]+|(?P<other>sglang)/launch_server)\.py\Z")
VALUED = ("-X", "-W", "--check-hash-based-pycs")  # options of python that take a word
USER_HZ = 100.0  # on every Linux that runs such a server
PORTS = {"vllm": 8000, "sglang": 30000}
ROLES = {"APIServer": "api_server", "EngineCore": "engine", "Worker": "worker", "scheduler": "engine"}


def argv_of(raw):
    """Words of /proc/PID/cmdline."""
    return [w.decode("utf-8", "replace") for w in raw.rstrip(b"\0").split(b"\0")] if raw.strip(b"\0") else []


def server(argv):
    """The engine that this command line serves with, or None."""
    if not argv:
        return None
    words = list(argv)
    if PYTHON.match(words[0].rsplit("/", 1)[-1]):
        words.pop(0)
        while words and words[0].startswith("-") and words[0] != "-m":
            if words[0] == "-c":
                return None
            words = words[2:] if words[0] in VALUED else words[1:]
        if words[:1] == ["-m"] and len(words) > 1:
            match = MODULE.match(words[1])
            if match and (not words[1].endswith("cli.main") or words[2:3] == ["serve"]):
                return match.group("engine") or match.group("other")
            words = words[1:]
    if not words:
        return None
    name = words[0].rsplit("/", 1)[-1]
    if name in PORTS and words[1:2] == ["serve"]:
        return name
    match = SCRIPT.search(words[0])
    return (match.group("engine") or match.group("other")) if match else None


def flag(argv, *names):
    """Value of the last of these flags, in either spelling; vLLM takes underscores for dashes."""
    value = None
    for i, word in enumerate(argv):
        name, eq, rest = word.partition("=")
        if name.startswith("--") and name.replace("_", "-") in names:
            value = rest if eq else (argv[i + 1] if i + 1 < len(argv) else None)
    return value


class Process:
    """One process, as far as it can be seen."""

    def __init__(self, ground, pid):
        self.ground, self.pid = ground, pid
        try:
            self.argv = argv_of(ground.read("/proc/%d/cmdline" % pid, 1 << 18))
        except Failed:  # it ended meanwhile
            self.argv = []
        head, _, tail = ground.text("/proc/%d/stat" % pid).rpartition(")")
        stat = tail.split()
        self.comm = head.partition("(")[2] or ground.text("/proc/%d/comm" % pid) or self.status().get("Name", "")
        self.parent = number(stat[1]) if len(stat) > 1 else number(self.status().get("PPid"))
        self.start_ticks = number(stat[19]) if len(stat) > 19 else None
        self.engine = server(self.argv)
        self.title = TITLE.match(self.argv[0]) if self.argv else None

    def status(self):
        """/proc/PID/status as a dict, read anew."""
        lines = self.ground.text("/proc/%d/status" % self.pid).splitlines()
        return {k: v.strip() for k, _, v in (line.partition(":") for line in lines)}

    def cpu_seconds(self):
        """CPU time used so far, or None."""
        stat = self.ground.text("/proc/%d/stat" % self.pid).rpartition(")")[2].split()
        return (number(stat[11], 0) + number(stat[12], 0)) / USER_HZ if len(stat) > 12 else None

    @property
    def role(self):
        """What it does for the engine."""
        if self.title:
            what = self.title.group("what").rstrip("_")
            return ROLES.get(what, what.lower())
        if self.engine:
            return "api_server"
        # what a multiprocessing parent starts besides its workers
        return "helper" if any("resource_tracker" in w or "forkserver" in w for w in self.argv) else "worker"

    @property
    def name(self):
        """What `ps` would call it, short; never its arguments."""
        if self.title:
            return self.argv[0].strip()[:60]
        if self.engine:
            return "vllm serve" if self.engine == "vllm" else "sglang server"
        return self.comm


def number(text, default=None):
    """An integer, or the default."""
    try:
        return int(text.split()[0])
    except (AttributeError, ValueError, IndexError):
        return default


class Engine:
    """One server: its first process, the others that belong to it, and where it answers."""

    def __init__(self, ground, head, family, boot):
        self.ground, self.head, self.family = ground, head, family
        self.name, self.pid, self.argv = head.engine, head.pid, head.argv
        ticks = head.start_ticks
        self.started = boot + ticks / USER_HZ if boot and ticks is not None else None
        self.container, self.runtime, self.unit = of_cgroup(ground.text("/proc/%d/cgroup" % head.pid))
        self.uds = flag(self.argv, "--uds")
        self.tls = flag(self.argv, "--ssl-certfile", "--ssl-keyfile") is not None
        self.address, self.port, self.listens = self._port()

    def _port(self):
        """(address, port, whether something listens there; None when that cannot be seen)."""
        asked = number(flag(self.argv, "--port"))
        usual = asked or PORTS[self.name]
        open_ports = ports.listening(self.ground, self.pid)
        if not open_ports:
            known = bool(self.ground.names("/proc/%d/net" % self.pid))
            return ports.reachable(flag(self.argv, "--host") or "127.0.0.1"), usual, False if known else None
        ours = set()
        for process in [self.head] + self.family:
            ours |= ports.sockets(self.ground, process.pid)
        mine = {port: host for inode, (host, port) in open_ports.items() if inode in ours}
        if not mine:  # another user's process: its descriptors are hidden, the table is not
            mine = {port: host for host, port in open_ports.values()}
            if usual not in mine:
                return "127.0.0.1", usual, False
        # the engine's other sockets are for its own processes; ours is the one asked for, or the usual one
        port = usual if usual in mine else (min(mine) if asked is None and len(mine) == 1 else usual)
        host = mine.get(port)
        if host is None:
            return "127.0.0.1", usual, False
        return self._from_here(host), port, True

    def _from_here(self, host):
        """The address as it is reached from the host: a container has loopback and addresses of its own."""
        here, there = self.ground.link("/proc/self/ns/net"), self.ground.link("/proc/%d/ns/net" % self.pid)
        if here and there and here != there:
            own = ports.own_addresses(self.ground, self.pid)
            if own and host in ("0.0.0.0", "::"):
                return own[0]
        return ports.reachable(host)

    def where(self):
        """What `ask.get` needs."""
        return {"address": self.address, "port": self.port, "tls": self.tls, "uds": self.uds_path()}

    def uds_path(self):
        """Path of the unix socket as seen from here."""
        return None if not self.uds else self.inside(self.uds)

    def inside(self, path):
        """A path of the engine's own file system, as a path of the host."""
        if not path.startswith("/"):
            path = (self.ground.link("/proc/%d/cwd" % self.pid) or "") + "/" + path
        return within("/proc/%d/root" % self.pid, path) if self.ground.real else path


def of_cgroup(text):
    """(container id, runtime, words that name its systemd unit to journalctl) from /proc/PID/cgroup."""
    container = re.search(r"(?:(?P<runtime>docker|libpod|crio|cri-containerd)[-/])?(?P<id>[0-9a-f]{64})", text)
    units = re.findall(r"/([\w@.:\\-]+\.service)", text)
    if container is None:
        whose = "--user-unit" if "/user@" in text else "--unit"
        return None, None, ([whose, units[-1]] if units else None)
    named = {"docker": "docker", "libpod": "podman", None: "kubernetes" if "kubepods" in text else "docker"}
    return container.group("id"), named.get(container.group("runtime"), "kubernetes"), None


def find(ground):
    """(engines, all processes)."""
    pids = sorted(int(n) for n in ground.names("/proc") if n.isdigit())
    everyone = {pid: Process(ground, pid) for pid in pids}
    boot = None
    for line in ground.text("/proc/stat", limit=1 << 22).splitlines():
        if line.startswith("btime "):
            boot = number(line[6:])
    heads = [p for p in everyone.values() if p.engine and not _child_of_server(p, everyone)]
    return [Engine(ground, h, _family(h, everyone, len(heads)), boot) for h in heads], everyone


def _ancestors(process, everyone):
    seen, at = set(), everyone.get(process.parent)
    while at is not None and at.pid not in seen:
        seen.add(at.pid)
        yield at
        at = everyone.get(at.parent)


def _child_of_server(process, everyone):
    return any(p.engine for p in _ancestors(process, everyone))


def _family(head, everyone, heads):
    """Everything the server started; processes with an engine's title too when no other server could own them."""
    titled = {"vllm": "VLLM", "sglang": "sglang"}[head.engine]
    out = []
    for p in everyone.values():
        if p is head:
            continue
        stray = heads == 1 and p.title and p.title.group("engine") == titled and p.parent not in everyone
        if stray or any(a is head for a in _ancestors(p, everyone)):
            out.append(p)
    return out


def choose(engines, port):
    """(the engine to look at, why there is none or why this one)."""
    if port is not None:
        for e in engines:
            if e.port == port:
                return e, None
        seen = ", ".join("%s on port %s" % (e.name, e.port) for e in engines)
        return None, "no engine on port %s%s" % (port, "; found %s" % seen if seen else "")
    if not engines:
        return None, None
    # one that answers before one that does not, then the lowest port: the same one each night
    first = sorted(engines, key=lambda e: (e.listens is False, e.port))[0]
    if len(engines) == 1:
        return first, None
    seen = ", ".join("%s on port %s (pid %d)" % (e.name, e.port, e.pid) for e in engines)
    return first, "%d engines serve here: %s; looked at port %s, --engine-port chooses" % (
        len(engines),
        seen,
        first.port,
    )
