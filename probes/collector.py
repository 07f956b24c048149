"""What runs on the host for the length of one visit: asks the questions of collect.yaml, answers in JSON lines.

Nothing is installed and nothing is written. `sh -c` finds a Python (3.6 or newer) and hands it this text, which comes
down the same stdin as everything else; the modules of guest/ and the pynvml module follow as text and live in memory.

    client:  <length>\\n<this file>          the program
    client:  <length>\\n<JSON>               {"modules": {name: source}, "pynvml": base64(zlib(source)),
                                             "questions": <collect.yaml>, "options": {...}}
    host:    {"hello": {...}}               once, with the host's clock
    host:    {"engines": [...]}             serving processes and their ports, as soon as they are known
    host:    {"file": "server.log", "data": "...", "new": true}     text; without "new" it goes on; "z" is base64(zlib)
    host:    {"gpus": {...}}                driver and the values of each card that do not change
    host:    {"sample": {...}}              one GPU sample: before, while the load runs, after
    host:    {"gap": "gpu", "why": "..."}
    host:    {"note": "..."}                for people: what was left out of the log, which engine was looked at
    host:    {"done": "look"}               every question has its answer or its gap
    client:  load-begin | load-end | stop   one a line; each is answered by {"done": "load-begin"} and so on

End of stdin is `stop` at once: children are killed, nothing stays.

A made-up root
==============

With DFLASH_DOCTOR_ROOT in the environment (or the option `root`) every path below is read under that folder instead of
`/`, so a folder of plain files is a host. The text runs as it would on a real host; what differs:

* `/proc/<pid>/` holds at least `cmdline` (NUL-separated). Whatever else is missing is tolerated:
  `environ` (NUL-separated), `status` (PPid, Uid, Threads, Cpus_allowed_list), `stat` (start time, CPU time), `cgroup`,
  `comm`, `exe` and `cwd` (symlinks), `net/tcp`, `maps`.
* `/proc/<pid>/fd/1` and `fd/2`: a plain file is the log itself; a symlink is followed *inside* the root when its target
  is absolute (`fd/1 -> /var/log/vllm.log` reads ROOT/var/log/vllm.log); a dangling `pipe:[123]` or `socket:[123]`
  means what it means on a real host (container runtime, journald, or the process that reads the pipe).
* The port: from `--port` of the command line (8000 for vLLM, 30000 for SGLang) unless `net/tcp` says otherwise.
  HTTP goes to that port on 127.0.0.1 of the machine that runs this text.
* `/proc/<pid>/root` is not looked at: the container's files are the root's files.
* Paths named by the engine (model folder, draft model folder, virtual environment) are read inside the root too.
* Commands (nvidia-smi, docker, podman, journalctl, dmesg, systemd-detect-virt) are taken from the folder
  DFLASH_DOCTOR_COMMANDS (or the option `commands`) when that is set, else from ROOT/usr/local/bin and ROOT/usr/bin;
  never from the machine that runs this text. A command that is not there is a gap. They are started with the PATH of
  the environment, that folder in front. Without DFLASH_DOCTOR_ROOT the folder is only put in front of PATH.
* NVML is not loaded: GPU counters come from that `nvidia-smi`. It is asked
  `--query-gpu=<names> --format=csv,noheader,nounits` (a name it does not know: exit status 2 and a line
  `Field "<name>" is not a valid field to query.`), `--query-compute-apps=gpu_uuid,pid,process_name,used_memory
  --format=csv,noheader,nounits`, `topo -m`, `-q -x`.
* Read for host.json where there: /proc/{cpuinfo,loadavg,meminfo,stat,uptime,cmdline,sys/kernel/{ostype,osrelease,version,
  hostname},1/cgroup}, /sys/devices/system/{cpu,node}/..., /sys/class/dmi/id/*, /sys/fs/cgroup/... (cpu.max, cpu.stat).
"""

import json
import os
import sys
import threading
import types

# in this order: a module may import only those before it
MODULES = ("hide", "ask", "wire", "ports", "engines", "logtext", "logs", "model", "smi", "nvml", "beyond", "gpu", "machine", "visit")


def take_modules(sources):
    """Make `guest.*` importable from text; nothing is written to disk."""
    guest = types.ModuleType("guest")
    guest.__path__ = []
    sys.modules["guest"] = guest
    for name in MODULES:
        module = types.ModuleType("guest." + name)
        sys.modules["guest." + name] = module
        setattr(guest, name, module)
        exec(compile(sources[name], "guest/%s.py" % name, "exec"), module.__dict__)


def commands(stream, visit):
    """Read one command a line until the client stops or goes away."""
    for line in iter(stream.readline, b""):
        command = line.strip().decode("ascii", "replace")
        if command == "stop":
            visit.put("stop")
            return
        if command in ("load-begin", "load-end"):
            visit.put(command)
    visit.hang_up()


def main():
    stream = sys.stdin.buffer
    length = stream.readline()
    try:
        given = json.loads(stream.read(int(length)).decode("utf-8"))
    except ValueError:
        return 2  # the client went away in the middle of a sentence
    take_modules(given["modules"])
    from guest import visit

    visiting = visit.Visit(given["questions"], given.get("options") or {}, given.get("pynvml"))
    listener = threading.Thread(target=commands, args=(stream, visiting))
    listener.daemon = True
    listener.start()
    return visiting.run()


if __name__ == "__main__":
    status = main()
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        pass
    # threads that still wait for a hung mount or driver must not hold us
    os._exit(status)
