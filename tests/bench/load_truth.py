"""What `standard` finds on simulated hosts whose step time and acceptance are known; needs a quiet machine, 3 minutes.

python -m tests.bench.load_truth        # exit status 1 when either is off by more than 1 %
"""

from __future__ import annotations

import os
import sys
from statistics import median

from dflash_doctor import load
from dflash_doctor.simulate import scenario as scenarios
from dflash_doctor.simulate.host import SimulatedHost

STEP_MS, CHANCES, OFF = 30.0, [0.9, 0.8, 0.6], 0.01
LENGTH = 1 + 0.9 + 0.9 * 0.8 + 0.9 * 0.8 * 0.6


def main():
    worst = 0.0
    for name in ("a6000-tuned", "a6000-dflash"):
        scenario = scenarios.vary(
            scenarios.load(name),
            timing={"step_time_ms": STEP_MS, "noise": 0.02, "boot_noise": 0.0, "prefill_tok_s": 20000.0},
            acceptance={"chances": CHANCES, "spread": 0.0, "depth": 3},
        )
        with SimulatedHost(scenario) as host:
            file = load.run(host.url, preset_name="standard")
        one = file.rounds[0]
        step = median(r.chunk_gap_ms for r in one.requests) / STEP_MS - 1
        length = one.server.accept_length / LENGTH - 1
        chunks = sum(r.output_tokens - 1 for r in one.requests) / sum(r.chunks - 1 for r in one.requests) / LENGTH - 1
        print(f"{name}: step time {step:+.2%}, tokens per step {length:+.2%} by counters, {chunks:+.2%} by chunks; "
              f"load average {os.getloadavg()[0]:.1f}, {file.notes}")  # fmt: skip
        worst = max(worst, abs(step), abs(length))
    sys.exit(worst > OFF)


if __name__ == "__main__":
    main()
