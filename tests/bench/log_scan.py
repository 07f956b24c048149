"""How fast a large log is diagnosed, beside ripgrep, grep and wc over the same file in the same run.

    python tests/bench/log_scan.py                       makes a log of 1 GiB in a temporary folder
    python tests/bench/log_scan.py server.log --repeat 5

`rg` and `grep` count the lines that hold one of the literals of all known log lines; `dflash-doctor diagnose` reads,
understands and judges. Commands take turns; medians of the wall time and of the processor time are printed, with the
most anonymous memory (RssAnon, read every few milliseconds; Linux only) that the diagnosis ever had.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dflash_doctor.parsers.logs import signals

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.bench import make_log

AIM, MOST_MIB = 1.5, 300  # times ripgrep; of anonymous memory
EVERY_S = 0.004
DIAGNOSE = (sys.executable, "-m", "dflash_doctor", "diagnose")


@dataclass(frozen=True)
class Run:
    """One run of one command."""

    wall_s: float
    cpu_s: float
    anonymous_kib: int


def run(command: Sequence[str], environ: Mapping[str, str]) -> Run:
    """Runs a command to its end; its output goes to a file (grep stops at the first match when it goes nowhere)."""
    before, began, peak = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), 0
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, env=environ, stdout=out, stderr=out)
        while child.poll() is None:
            peak = max(peak, anonymous(child.pid))
            time.sleep(EVERY_S)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Run(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak)


def anonymous(pid: int) -> int:
    """KiB of memory that belong to no file; 0 where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon:")), 0)


def commands(log: Path, literals: Path) -> dict[str, tuple[str, ...]]:
    """What is run, by name; a program that is not there is told and left out."""
    beside = {
        "rg -c -F -f": ("rg", "-c", "-F", "-f", str(literals), str(log)),
        "grep -c -F -f": ("grep", "-c", "-F", "-f", str(literals), str(log)),
        "wc -l": ("wc", "-l", str(log)),
    }
    for name, command in beside.items():
        if shutil.which(command[0]) is None:
            print(f"{command[0]} is not installed: no `{name}` in this run")
    found = {name: command for name, command in beside.items() if shutil.which(command[0])}
    return {**found, "diagnose": (*DIAGNOSE, "--no-baseline", str(log))}


def measured(log: Path, repeat: int) -> dict[str, list[Run]]:
    """Runs of every command, taking turns."""
    # an installed package has its bytecode; the first run writes it where it is missing
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        literals, small = Path(folder) / "literals", Path(folder) / "small.log"
        texts = {text for engine in signals.FILES for text in signals.book(engine).literals()}
        literals.write_text("".join(f"{text}\n" for text in sorted(texts)), encoding="utf-8")
        make_log.write(small, "vllm", 1)
        run((*DIAGNOSE, str(small)), environ)
        asked = commands(log, literals)
        runs: dict[str, list[Run]] = {name: [] for name in asked}
        run(("wc", "-l", str(log)), environ)  # into the page cache
        for _ in range(repeat):
            for name, command in asked.items():
                runs[name].append(run(command, environ))
    print(f"{len(texts)} literals; load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    return runs


def show(runs: Mapping[str, Sequence[Run]]) -> None:
    """A table of medians, the ratios, and whether the aim is met."""
    ours = statistics.median(r.wall_s for r in runs["diagnose"])
    ours_cpu = statistics.median(r.cpu_s for r in runs["diagnose"])
    print(f"{'':16}{'wall s':>9}{'cpu s':>9}{'diagnose is':>14}{'in cpu time':>14}")
    for name, rows in runs.items():
        wall, cpu = (statistics.median(x) for x in zip(*((r.wall_s, r.cpu_s) for r in rows), strict=True))
        print(f"{name:16}{wall:9.2f}{cpu:9.2f}{ours / wall:13.2f}x{ours_cpu / max(cpu, 0.001):13.2f}x")
    peak = max(r.anonymous_kib for r in runs["diagnose"]) / 1024
    print(f"diagnose: at most {peak:.0f} MiB RssAnon (aim: {MOST_MIB})")
    if "rg -c -F -f" in runs:
        ratio = ours / statistics.median(r.wall_s for r in runs["rg -c -F -f"])
        print(f"diagnose / ripgrep: {ratio:.2f} (aim: {AIM})")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("log", type=Path, nargs="?")
    asked.add_argument("--size", type=int, default=1024, help="MiB of the log that is made (default: 1024)")
    asked.add_argument("--engine", choices=("vllm", "sglang"), default="vllm")
    asked.add_argument("--repeat", type=int, default=3)
    args = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = args.log or Path(folder) / "server.log"
        if args.log is None:
            make_log.write(log, args.engine, args.size)
        print(f"{log.name}: {log.stat().st_size / 2**20:.0f} MiB")
        show(measured(log, args.repeat))


if __name__ == "__main__":
    main()
