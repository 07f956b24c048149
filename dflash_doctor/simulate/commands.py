"""The commands of a simulated host: nvidia-smi, dmesg and docker, and the plain tools of a shell; nothing else."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dflash_doctor.simulate import nvidia_smi
from dflash_doctor.simulate.logs import API, worker_pid
from dflash_doctor.simulate.scenario import Gpu, Scenario

# what a shell on the host has beside the stand-ins; on the machine's own PATH a real nvidia-smi or docker could answer
TOOLS = (
    "awk", "basename", "bash", "cat", "cut", "date", "dd", "dirname", "egrep", "env", "expr", "find", "grep", "head",
    "hostname", "id", "kill", "ls", "mkdir", "mktemp", "nice", "od", "printf", "readlink", "rm", "sed", "seq", "sh",
    "sleep", "sort", "stat", "tail", "tee", "test", "timeout", "tr", "uname", "uniq", "wc", "which", "xargs",
)  # fmt: skip

CONTAINER = "4f1d2c9a7be03e5568d1a0c47f9b2e83716c05d4ab9e8f7012c3d4e5f6a7b8c9"

# `docker ps [-a] [-q] [--format …] [--no-trunc]`, `docker inspect NAME`, `docker logs [options] NAME`
DOCKER = """case "$1" in
ps)
  shift; all=; format=; quiet=
  while [ $# -gt 0 ]; do
    case "$1" in
      -a|--all) all=1;;
      -q|--quiet) quiet=1;;
      -aq|-qa) all=1; quiet=1;;
      --format) format="$2"; shift;;
      --format=*) format="${1#*=}";;
    esac
    shift
  done
  [ -n "$all$running" ] || exit 0
  if [ -n "$quiet" ]; then echo "$ident"; exit 0; fi
  case "$format" in
    *json*) cat "$answers/ps.json";;
    "") printf 'CONTAINER ID   IMAGE   COMMAND   CREATED   STATUS   PORTS   NAMES\\n%s   %s\\n' "$ident" "$line";;
    *) echo "$ident $name $state";;
  esac;;
inspect) cat "$answers/inspect.json";;
logs) cat "$log";;
*) echo "docker: '$1' is not a docker command." >&2; exit 1;;
esac"""


def set_up(
    folder: Path, scenario: Scenario, argv: Sequence[str], environ: Mapping[str, str], log: Path, started_at: float
) -> Path:
    """Write the commands into `folder/bin` and what they answer beside it; returns that bin."""
    bin_ = folder / "bin"
    bin_.mkdir(parents=True, exist_ok=True)
    for tool in TOOLS:
        if found := shutil.which(tool):
            (bin_ / tool).symlink_to(found)
    # the interpreter itself: a link to a virtual environment's link would not find its library
    python = os.path.realpath(sys.executable)
    if scenario.machine.python:
        (bin_ / "python3").symlink_to(python)
    if scenario.gpus.count:
        cards = folder / "gpus.json"
        cards.write_text(json.dumps(gpu_facts(scenario)), encoding="utf-8")
        words = [python, "-IS", str(nvidia_smi.__file__), str(cards), str(folder / "busy")]
        _command(bin_ / "nvidia-smi", f'exec {shlex.join(words)} "$@"')
    (folder / "dmesg.txt").write_text(scenario.dmesg, encoding="utf-8")
    _command(bin_ / "dmesg", f"exec cat {shlex.quote(str(folder / 'dmesg.txt'))}")
    if scenario.container:
        _docker(folder, scenario, argv, environ, log, started_at)
    return bin_


def _docker(
    folder: Path, scenario: Scenario, argv: Sequence[str], environ: Mapping[str, str], log: Path, started_at: float
) -> None:
    """One container; after a failed start it is there, exited, with its log."""
    s, failed = scenario, scenario.fails
    image, name = f"{s.engine}/{s.engine}:{s.version}", str(s.container)
    status = f"Exited ({failed.exit_code}) 2 minutes ago" if failed else "Up 2 minutes"
    when = time.strftime("%Y-%m-%dT%H:%M:%S.000000000Z", time.gmtime(started_at))
    state = {
        "Status": "exited" if failed else "running", "Running": not failed, "Pid": 0 if failed else API,
        "ExitCode": failed.exit_code if failed else 0, "StartedAt": when,
    }  # fmt: skip
    config = {"Image": image, "Entrypoint": None, "Cmd": list(argv), "Env": [f"{k}={v}" for k, v in environ.items()]}
    inspected = {"Id": CONTAINER, "Name": f"/{name}", "Path": argv[0], "Args": list(argv[1:]), "State": state,
                 "Config": config}  # fmt: skip
    row = {"ID": CONTAINER[:12], "Names": name, "Image": image, "Command": shlex.join(argv), "Status": status,
           "State": state["Status"], "CreatedAt": when}  # fmt: skip
    answers = folder / "docker"
    answers.mkdir(exist_ok=True)
    (answers / "inspect.json").write_text(json.dumps([inspected], indent=4) + "\n", encoding="utf-8")
    (answers / "ps.json").write_text(json.dumps(row) + "\n", encoding="utf-8")
    known = {
        "answers": str(answers), "log": str(log), "ident": CONTAINER[:12], "name": name, "state": status,
        "running": "" if failed else "1", "line": f"{image}   {status}   {name}",
    }  # fmt: skip
    heads = "\n".join(f"{k}={shlex.quote(v)}" for k, v in known.items())
    _command(folder / "bin" / "docker", f"{heads}\n{DOCKER}")


def _command(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def bus_id(index: int) -> str:
    """The PCI address of a card, as nvidia-smi writes it."""
    return f"00000000:{0x41 + index * 0x20:02X}:00.0"


def gpu_facts(scenario: Scenario) -> dict[str, Any]:
    """What the stand-in nvidia-smi reads."""
    gpus, rows = scenario.gpus, []
    host = zlib.crc32(scenario.machine.hostname.encode())
    title = "VLLM::Worker_TP" if scenario.engine == "vllm" else "sglang::scheduler_TP"
    for index in range(gpus.count):
        own = gpus.only.get(index, Gpu())
        each: dict[str, Any] = {
            "index": index, "count": gpus.count, "driver_version": gpus.driver, "pci.bus_id": bus_id(index),
            "uuid": f"GPU-{host:08x}-7c41-4d0e-9b1f-{index:012x}", **gpus.each, **own.each,
        }  # fmt: skip
        idle, load, rates = dict(gpus.idle), dict(gpus.load), dict(gpus.rates)
        idle.update(own.idle)
        load.update(own.load)
        rates.update(own.rates)
        processes = [p.model_dump(exclude={"gpu"}) for p in gpus.processes if p.gpu == index]
        used = idle.get("memory.used")
        if scenario.fails is None and index < scenario.tp and isinstance(used, (int, float)):
            # what the others and the driver do not hold is the engine's
            mine = max(0, int(used) - sum(p["used_memory"] for p in processes) - 18)
            processes.insert(0, {"pid": worker_pid(index), "name": f"{title}{index}", "used_memory": mine})
        rows.append({"each": each, "idle": idle, "load": load, "rates": rates, "processes": processes})
    return {
        "driver": gpus.driver, "cuda": gpus.cuda, "jitter": gpus.jitter, "topology": scenario.topology, "gpus": rows,
    }  # fmt: skip
