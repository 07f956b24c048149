"""What sampling the GPUs costs the host: share of one core at 2, 5 and 10 samples a second, for every made-up host.

    python tests/bench/gpu_sampling.py [SECONDS]

The real pynvml asks the made-up library of tests/fake_nvml, so what is counted is all that runs in our own process: the
questions, their decoding, JSON, and the library's look at its state file. A real driver adds what its ioctls take.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

STATES = ("a6000x2-power-cap", "h100x8", "sixteen")
RATES = (2.0, 5.0, 10.0)


class Sink:
    """Where the samples go: JSON lines, counted and forgotten."""

    def __init__(self) -> None:
        self.lines = self.bytes = 0

    def say(self, answer: object) -> None:
        self.lines += 1
        self.bytes += len(json.dumps(answer))

    def gap(self, what: str, why: str) -> None:
        raise SystemExit(f"{what}: {why}")


def measure(seconds: float) -> None:
    """One JSON line for each rate; runs where the environment names the library and the state."""
    import pynvml  # noqa: F401  # the collector brings its text along; here the installed one is the same
    from guests import ask, gpu

    from dflash_doctor.collect import program

    question = next(q for q in program.questions()["questions"] if q["name"] == "gpu")
    gpus = gpu.Gpus(ask.Ground("/"), None, str, question)
    assert gpus.source == "nvml"
    for hertz in RATES:
        sink = Sink()
        sampler = gpu.Sampler(gpus, sink, hertz)
        wall, busy = time.monotonic(), time.process_time()
        sampler.begin()
        time.sleep(seconds)
        sampler.end()
        wall, busy = time.monotonic() - wall, time.process_time() - busy
        row = {"hertz": hertz, "samples": sink.lines, "core": busy / wall, "each_ms": 1e3 * busy / max(1, sink.lines)}
        print(json.dumps({**row, "kib_per_s": sink.bytes / 1024 / wall}), flush=True)


def main(seconds: float) -> None:
    """Every state in a process of its own: a library is loaded once."""
    from fake_nvml import MadeUp

    print(f"{'host':<20}{'Hz':>6}{'samples':>9}{'of one core':>13}{'a sample':>11}{'on the wire':>15}")
    with tempfile.TemporaryDirectory() as folder:
        for name in STATES:
            made = MadeUp(name, Path(folder) / name, Path(folder))
            command = [sys.executable, __file__, str(seconds), "measure"]
            said = subprocess.run(command, env={**os.environ, **made.environ}, check=True, stdout=subprocess.PIPE)
            for line in said.stdout.splitlines():
                row = json.loads(line)
                print(f"{name:<20}{row['hertz']:>6g}{row['samples']:>9}{row['core']:>12.2%} {row['each_ms']:>7.2f} ms"
                      f"{row['kib_per_s']:>9.1f} KiB/s")  # fmt: skip


if __name__ == "__main__":
    length = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    if sys.argv[2:] == ["measure"]:
        measure(length)
    else:
        main(length)
