"""The fault gym: plants each fault of faults.yaml into a tuned simulated host and asks what is wrong with it.

    python -m tests.gym                      all of them, two at a time: collect, load and diagnose over SSH and HTTP
    python -m tests.gym "a hot card" -v      some by name, with the whole report of those that fail

Prints for each fault which cause stands first and how far its factor is from the planted one; at the end precision,
recall and the error of the factors. Exit status 1 when a fault is not first, a factor is off by more than 15 %, or a
healthy host is not silent.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from dflash_doctor.simulate import scenario as scenarios
from dflash_doctor.simulate.host import SimulatedHost

FAULTS = Path(__file__).parent / "faults.yaml"
AT_ONCE = 2  # hosts that are asked side by side: they mostly wait
NEAR = 0.15  # how far a factor may be from the planted one
QUIET = ("healthy", "minor")


@dataclass(frozen=True)
class Outcome:
    """What was said about one host."""

    name: str
    right: bool
    said: str
    error: float | None = None  # of the factor, as a share
    report: str = ""


def tuned(name: str, spec: dict[str, Any]) -> scenarios.Scenario:
    """The tuned host of an engine."""
    return scenarios.vary(scenarios.load(spec["extends"]), **{k: v for k, v in spec.items() if k != "extends"})


def ask(host: SimulatedHost, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The program, as typed, with the host's own SSH configuration."""
    argv = [sys.executable, "-m", "dflash_doctor", *words, "--ssh-config", str(host.ssh_config), "--preset", "quick"]
    env = {**os.environ, "XDG_DATA_HOME": str(home)}
    return subprocess.run(argv, capture_output=True, text=True, env=env, timeout=180, check=False)


def keep(name: str, base: scenarios.Scenario, home: Path) -> None:
    """The tuned host's baseline, under the engine's name."""
    with SimulatedHost(base) as host:
        done = ask(host, home, "baseline", "capture", host.target, "--name", name)
    if done.returncode:
        raise SystemExit(f"the tuned {name} host could not be written down: {done.stderr}")


def diagnosed(case: dict[str, Any], base: scenarios.Scenario, home: Path) -> dict[str, Any]:
    """The report of a host with the case's change."""
    with SimulatedHost(scenarios.vary(base, **case["change"]), boot=1) as host:
        done = ask(host, home, "diagnose", host.target, "--baseline", case["host"], "--format", "json")
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {"verdict": f"no report: {done.stderr[-300:]}", "findings": [], "slowdown": None}
    return report


def judged(case: dict[str, Any], report: dict[str, Any]) -> Outcome:
    """Whether the planted fault stands first with its factor; whether a healthy host is left in peace."""
    loud = [f["cause"] for f in report["findings"] if f["severity"] != "info"]
    said = f"{report['verdict']}: {', '.join(loud[:3]) or 'nothing'}"
    if "cause" not in case:
        return Outcome(case["name"], not loud and report["verdict"] in QUIET, said, report=json.dumps(report, indent=1))
    error = None
    for part, planted in case.get("slows", {}).items():
        parts = {p["name"]: p["factor"] for p in (report["slowdown"] or {"parts": []})["parts"]}
        found = parts.get(part)
        error = abs(found / planted - 1) if found else 1.0
        said += f"; {part} {found and round(found, 3)}x, planted {planted}x"
    right = loud[:1] == [case["cause"]] and (error is None or error <= NEAR)
    return Outcome(case["name"], right, said, error, json.dumps(report, indent=1))


def run(names: list[str], *, verbose: bool = False) -> int:
    """The gym; the exit status."""
    gym = yaml.load(FAULTS.read_text(encoding="utf-8"), scenarios.Loader)
    bases = {name: tuned(name, spec) for name, spec in gym["tuned"].items()}
    cases = [c for c in (*gym["faults"], *gym["healthy"]) if not names or c["name"] in names]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        home = Path(folder)
        list(
            pool.map(
                lambda b: keep(b[0], b[1], home),
                [(n, b) for n, b in bases.items() if any(c["host"] == n for c in cases)],
            )
        )
        outcomes = list(pool.map(lambda c: judged(c, diagnosed(c, bases[c["host"]], home)), cases))
    for o in outcomes:
        print(f"{'ok  ' if o.right else 'MISS'} {o.name}: {o.said}")
        if verbose and not o.right:
            print(o.report)
    return _summary([(c, o) for c, o in zip(cases, outcomes, strict=True)])


def _summary(pairs: list[tuple[dict[str, Any], Outcome]]) -> int:
    faults = [(c, o) for c, o in pairs if "cause" in c]
    healthy = [o for c, o in pairs if "cause" not in c]
    first = [o for c, o in faults if f": {c['cause']}" in o.said]
    alarms = len([o for o in healthy if not o.right])
    errors = [o.error for _, o in faults if o.error is not None]
    precision = len(first) / max(len(faults) + alarms, 1)
    print(
        f"\n{len(first)} of {len(faults)} faults first, precision {precision:.2f}, "
        f"recall {len(first) / max(len(faults), 1):.2f}; {alarms} of {len(healthy)} healthy hosts not silent; "
        f"error of the factor {median(errors or [0]):.1%} in the middle, {max(errors or [0]):.1%} at worst"
    )
    return 0 if all(o.right for _, o in pairs) else 1


def main() -> int:
    """The script."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="names of faults or healthy hosts; all when absent")
    parser.add_argument("-v", "--verbose", action="store_true")
    asked = parser.parse_args()
    return run(asked.names, verbose=asked.verbose)


if __name__ == "__main__":
    sys.exit(main())
