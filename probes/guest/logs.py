"""Where the engine's log is: the file behind its stdout, the program at the other end of its pipe, the container
runtime, the journal. What is not there is said in words: /dev/null, a terminal, another user's process.
"""

import json
import os
import re
import stat

from guest import logtext
from guest.ask import Failed

SERVING = re.compile(r"vllm|sglang", re.I)
RAW = 6 << 20  # taken from a command that prints a log


class Log:
    """How one log is read: bounds in bytes, patterns of lines to drop, seconds for a command."""

    def __init__(self, ground, limits, seconds):
        self.ground, self.limits, self.seconds = ground, limits, seconds

    def cleaner(self):
        return logtext.Cleaner(self.limits.get("drop") or [], self.limits.get("progress"))

    def of_file(self, path, shown, started=None):
        """(text, note) of a file that may be huge and may be written meanwhile."""
        with self.ground.open(path) as f:
            seen = os.fstat(f.fileno())
            if not stat.S_ISREG(seen.st_mode):
                raise Failed("%s is not a file" % shown)
            if seen.st_size == 0:
                raise Failed("%s is empty" % shown)
            try:
                return logtext.excerpt(
                    f, seen.st_size, self.cleaner(), self.limits["head"], self.limits["tail"], started, seen.st_mtime
                )
            except OSError as e:
                raise Failed("%s: %s" % (shown, e.strerror))

    def of_command(self, everything, tail, name):
        """(text, note) of what a command prints; `tail` is the command that prints the end only."""
        data = self.ground.run(everything, self.seconds, RAW, both=True)
        if not data.strip():
            raise Failed("%s: printed nothing" % name)
        if len(data) < RAW:
            return logtext.fit(data, self.cleaner(), self.limits["head"], self.limits["tail"])
        first, _ = logtext.fit(data, self.cleaner(), self.limits["head"], 0)
        last, _ = logtext.fit(
            self.ground.run(tail, self.seconds, RAW, both=True), self.cleaner(), 0, self.limits["tail"]
        )
        between = b"[dflash-doctor: a part of the log left out here]\n"
        return first + between + last, "server.log: the first part of the current start and the tail were taken"


def of_engine(log, engine, everyone):
    """[(file name, text, note)] of a running engine; Failed with every reason when there is none."""
    found, why, done = [], [], set()
    for fd, name in ((1, "server.log"), (2, "server.stderr.log")):
        at = "/proc/%d/fd/%d" % (engine.pid, fd)
        target = log.ground.link(at)
        # a container or service keeps both in one log, whatever leads to it
        source = target
        if target and not target.startswith("/"):
            source = engine.container or (str(engine.unit) if target.startswith("socket:") else target)
        if source in done:
            continue
        done.add(source)
        try:
            text, note = _behind(log, engine, everyone, at, target)
            found.append(("server.log" if not found else name, text, note))
        except Failed as e:
            why.append(str(e))
    if not found and not any(w.startswith(("docker", "podman", "journalctl")) for w in why):
        # descriptors of another user's process are hidden, its cgroup is not
        try:
            if engine.container:
                found.append(("server.log",) + of_container(log, engine.runtime, engine.container, engine.started))
            elif engine.unit:
                found.append(("server.log",) + of_unit(log, engine.unit, engine.started))
        except Failed as e:
            why.append(str(e))
    if not found:
        raise Failed("; ".join(dict.fromkeys(why)))
    return found


def _behind(log, engine, everyone, at, target):
    """What stands behind one descriptor."""
    ground = log.ground
    if target is None and not ground.there(at):
        raise Failed(hidden(ground, engine))
    if target is None or (target.startswith("/") and not target.startswith("/dev/")):
        shown = (target or at).replace(" (deleted)", "")
        # on a real host the descriptor leads there even when the file is deleted or in a container
        return log.of_file(at if ground.real or target is None else target, shown, engine.started)
    if target.startswith("/dev/"):
        what = "is thrown away" if target == "/dev/null" else "goes to a terminal"
        raise Failed("the engine's output %s (%s); start it with `2>&1 | tee server.log`" % (what, target))
    if engine.container:
        return of_container(log, engine.runtime, engine.container, engine.started)
    if target.startswith("pipe:"):
        return _of_pipe(log, everyone, target, engine)
    if engine.unit:
        return of_unit(log, engine.unit, engine.started)
    raise Failed("the engine's output goes to %s, and no service or container is known for it" % target)


def hidden(ground, engine):
    """Why a process's descriptors cannot be read."""
    owner = (engine.head.status().get("Uid") or "?").split()[0]
    if owner in ("?", str(os.getuid())):
        return "the engine's descriptors cannot be read"
    return "the engine's descriptors cannot be read: it runs as user %s, we are user %d" % (owner, os.getuid())


def _of_pipe(log, everyone, pipe, engine, depth=0):
    """The file that the program at the other end writes: `vllm serve ... | tee server.log`."""
    ground = log.ground
    ours = {engine.pid} | {p.pid for p in engine.family}
    for pid in everyone:
        folder = "/proc/%d/fd" % pid
        if pid in ours or ground.link(folder + "/0") != pipe:
            continue
        for fd in sorted(ground.names(folder), key=lambda n: (len(n), n)):
            target = ground.link("%s/%s" % (folder, fd)) or ""
            if target.startswith("/") and not target.startswith("/dev/") and _written(ground, pid, fd):
                at = "%s/%s" % (folder, fd) if ground.real else target
                return log.of_file(at, target, engine.started)
            if fd == "1" and target.startswith("pipe:") and depth < 3:
                return _of_pipe(log, everyone, target, engine, depth + 1)
    raise Failed(
        "the engine's output goes into a pipe whose reader keeps no file that we can see"
        "; if we are inside its container, the runtime outside has the log"
    )


def _written(ground, pid, fd):
    flags = re.search(r"^flags:\s*(\d+)", ground.text("/proc/%d/fdinfo/%s" % (pid, fd)), re.M)
    return flags is None or int(flags.group(1), 8) & 3 != 0


def of_container(log, runtime, container, started=None):
    """The log that the container runtime keeps."""
    why = []
    for command in {"docker": ["docker"], "podman": ["podman"]}.get(runtime, ["crictl"]):
        since = ["--since", str(int(started) - 5)] if started and command != "crictl" else []
        try:
            return log.of_command(
                [command, "logs"] + since + [container], [command, "logs", "--tail", "6000", container],
                "%s logs %s" % (command, container[:12]),
            )  # fmt: skip
        except Failed as e:
            why.append(str(e))
    for path in _kept(log.ground, runtime, container):
        try:
            return log.of_file(path, path, started)
        except Failed as e:
            why.append(str(e))
    raise Failed("; ".join(why))


def _kept(ground, runtime, container):
    """Where runtimes keep logs as files."""
    if runtime == "docker":
        return ["/var/lib/docker/containers/%s/%s-json.log" % (container, container)]
    names = [n for n in ground.names("/var/log/containers") if n.endswith(container + ".log")]
    return ["/var/log/containers/" + n for n in names]


def of_unit(log, unit, started=None):
    """The journal of a systemd service; `unit` are the words that name it to journalctl."""
    since = ["--since", "@%d" % (int(started) - 5)] if started else ["-b"]
    base = ["journalctl", "--no-pager", "--quiet", "--all", "-o", "cat"] + unit
    return log.of_command(base + since, base + ["-n", "6000"], "journalctl of %s" % unit[-1])


# -- servers that should run and do not -------------------------------------------------------------------------------


def of_dead(log, hider, allowed):
    """The newest container or service whose name or command says vLLM or SGLang, and that does not run.

    (description, [(file name, text, note)]); Failed when there is none.
    """
    why = []
    for look in (_dead_container, _dead_unit):
        for command in ("docker", "podman") if look is _dead_container else ("systemctl",):
            if log.ground.find(command):
                try:
                    found = look(log, command, hider, allowed)
                except Failed as e:
                    why.append(str(e))
                    continue
                if found is not None:
                    return found
    because = " (%s)" % "; ".join(why) if why else ""
    raise Failed("no running server, and no stopped container or service of vLLM or SGLang%s" % because)


def _dead_container(log, command, hider, allowed):
    listed = log.ground.run([command, "ps", "-a", "--no-trunc", "--format", "{{json .}}"], log.seconds)
    rows = []
    for line in listed.decode("utf-8", "replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        about = " ".join(str(row.get(k, "")) for k in ("Image", "Command", "Names"))
        if isinstance(row, dict) and SERVING.search(about) and not str(row.get("Status", "")).startswith("Up"):
            rows.append(row)
    if not rows:
        return None
    newest = max(rows, key=lambda r: str(r.get("CreatedAt", "")))
    ident = str(newest.get("ID") or newest.get("Id"))
    files = []
    try:
        about = json.loads(log.ground.run([command, "inspect", ident], log.seconds).decode("utf-8", "replace"))[0]
        config = about.get("Config") or {}
        argv = [str(w) for w in [about.get("Path")] + list(about.get("Args") or []) if w]
        pairs = [e.partition("=")[::2] for e in config.get("Env") or []]
        environ = hider.environ(pairs, allowed)
        files.append(("cmdline", "\0".join(hider.argv(argv)) + "\0", None))
        files.append(("environ", "".join(e + "\n" for e in environ), None))
    except (Failed, ValueError, LookupError, AttributeError):
        pass  # its log says more than its launch line
    what = "container %s (%s)" % (newest.get("Names"), newest.get("Status"))
    try:
        text, note = of_container(log, command, ident)
        files.append(("server.log", text, note))
    except Failed as e:
        raise Failed("%s: %s" % (what, e))
    return what, files


def _dead_unit(log, command, hider, allowed):
    ask = [command, "list-units", "--all", "--plain", "--no-legend", "--type=service"]
    listed = log.ground.run(ask, log.seconds)
    # vllm.service  loaded failed failed vLLM server
    for line in listed.decode("utf-8", "replace").splitlines():
        cells = line.split(None, 4)
        if len(cells) >= 4 and SERVING.search(line) and cells[1] == "loaded" and cells[2] != "active":
            text, note = of_unit(log, ["--unit", cells[0]])
            return "service %s (%s)" % (cells[0], cells[2]), [("server.log", text, note)]
    return None


def nccl(log, engine, environ):
    """[(file name, text, note)] of the files NCCL_DEBUG_FILE names; empty when there are none."""
    pattern = dict(environ).get("NCCL_DEBUG_FILE")
    if not pattern:
        return []
    folder, _, name = pattern.rpartition("/")
    match = re.compile(re.sub(r"%[hp]", "[^/]*", re.escape(name).replace(r"\%", "%")) + r"\Z")
    at = engine.inside(folder or ".")
    names = [n for n in log.ground.names(at) if match.match(n)]
    if not names:
        raise Failed("%s: no such file" % pattern)
    return [("nccl.log",) + log.of_file("%s/%s" % (at, names[0]), pattern)]
