"""Writes the log of a busy server, of any size, out of a real capture: `make_log.py out.log --size 1024`.

A start as the engine printed it, then serving: of 31 lines one carries a signal (the engine's own periodic figures with
the clock moved on and the speed scattered; now and then a warning, a failed request), 30 are requests, health checks
and scrapes. A whole other start comes before it, as in the log of a service that was restarted.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

CAPTURES = Path(__file__).parent.parent / "captures"
BEFORE = {"vllm": "v032_base_compiled", "sglang": "sglang0523_base"}
SERVING = {"vllm": "v032_repeat_dflash_copy_k7", "sglang": "sglang0523_spec_standalone_good_k4"}
NOISE = 30  # lines without a signal for one that has one
POOL = 4099  # different requests; prime, so that they never fall in step with the figures
WINDOW_S = 10.0  # distance of two periodic figures
ODD = 499  # of so many windows one is followed by a warning or a failed request

FIGURES = re.compile(rb"Avg generation throughput: [1-9]|SpecDecoding metrics: Mean|Decode batch, #running")
STAMP = re.compile(rb"(\d\d-\d\d )?\d\d-\d\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
SPEED = re.compile(rb"((?:generation throughput|gen throughput \(token/s\)): )(\d+\.\d+)")
FORMS = {
    "vllm": (b"(APIServer pid=7)", b" INFO:     ", b"%m-%d %H:%M:%S"),
    "sglang": (b"[%b]", b" INFO:     ", b"%Y-%m-%d %H:%M:%S"),
}
ODDITIES = {
    "vllm": (
        b"(EngineCore pid=61) WARNING %b [tokenizer.py:41] Tokenizing a prompt took %d ms in request cmpl-%x-0\n",
        b"(EngineCore pid=61) WARNING %b [scheduler.py:1204] Sequence group cmpl-%x is preempted by recomputation\n",
        b'(APIServer pid=7) INFO:     10.0.3.9:51344 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error\n',
    ),
    "sglang": (
        b"[%b TP0] Tokenizing a prompt failed after %d ms in request %x\n",
        b"[%b TP0] KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: %d\n",
        b'[%b] INFO:     10.0.3.9:51344 - "POST /generate HTTP/1.1" 500 Internal Server Error\n',
    ),
}


def lines_of(name: str) -> list[bytes]:
    """The log of one capture, line by line."""
    return gzip.decompress((CAPTURES / name / "server.log.gz").read_bytes()).splitlines(keepends=True)


def requests(engine: str, rng: random.Random) -> list[bytes]:
    """Access lines as the engine's HTTP server prints them; SGLang's have a stamp to fill in."""
    who, between, _ = FORMS[engine]
    path = b"/v1/completions" if engine == "vllm" else b"/generate"
    kinds = [b'POST %b HTTP/1.1" 200 OK' % path] * 12 + [
        b'GET /health HTTP/1.1" 200 OK',
        b'GET /metrics HTTP/1.1" 200 OK',
    ]
    made = []
    for _ in range(POOL):
        client = b"10.0.%d.%d:%d" % (rng.randrange(8), rng.randrange(1, 255), rng.randrange(32768, 61000))
        made.append(who + between + client + b' - "' + rng.choice(kinds) + b"\n")
    return made


def made(engine: str, size: int, seed: int) -> Iterator[bytes]:
    """Blocks of the log, `size` bytes in all and a little more."""
    rng = random.Random(seed)
    for line in lines_of(BEFORE[engine]):
        size -= len(line)
        yield line
    capture = lines_of(SERVING[engine])
    last = max(n for n, line in enumerate(capture) if FIGURES.search(line))
    first = min(n for n, line in enumerate(capture) if FIGURES.search(line))
    head, tail = capture[:first], capture[last + 1 :]
    for line in head:
        size -= len(line)
        yield line
    size -= sum(map(len, tail))
    figures = [line for line in capture[first : last + 1] if FIGURES.search(line)]
    noise, layout = requests(engine, rng), FORMS[engine][2].decode()
    stamped = engine == "sglang"
    windows = (
        [figures[i : i + 2] for i in range(0, len(figures) - 1, 2)] if engine == "vllm" else [[f] for f in figures]
    )
    now, at = 1_795_000_000.0, 0
    for n, window in enumerate(cycle(windows)):
        if size <= 0:
            break
        now += WINDOW_S
        stamp = time.strftime(layout, time.gmtime(now)).encode()
        count = NOISE * len(window)
        block = noise[at : at + count] if at + count <= POOL else noise[at:] + noise[: at + count - POOL]
        at = (at + count) % POOL
        if stamped:
            block = [b.replace(b"%b", stamp) for b in block]
        if n % ODD == ODD - 1:
            block[-1] = _odd(ODDITIES[engine][n // ODD % 3], stamp, rng)
        factor = rng.uniform(0.97, 1.03)
        text = b"".join([*(_moved(line, stamp, factor) for line in window), *block])
        size -= len(text)
        yield text
    yield from tail


def _moved(line: bytes, stamp: bytes, factor: float) -> bytes:
    line = STAMP.sub(stamp, line, count=1)
    return SPEED.sub(lambda m: m[1] + b"%.2f" % (float(m[2]) * factor), line, count=1)


def _odd(form: bytes, stamp: bytes, rng: random.Random) -> bytes:
    form = form.replace(b"%b", stamp).replace(b"%x", b"%016x" % rng.getrandbits(64))
    return form.replace(b"%d", b"%d" % rng.randrange(400, 900))


def write(path: Path, engine: str, mib: int, seed: int = 1) -> None:
    """A log of `mib` MiB at `path`."""
    with path.open("wb", buffering=1 << 20) as f:
        for block in made(engine, mib << 20, seed):
            f.write(block)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("path", type=Path)
    asked.add_argument("--size", type=int, default=1024, help="MiB (default: 1024)")
    asked.add_argument("--engine", choices=sorted(FORMS), default="vllm")
    asked.add_argument("--seed", type=int, default=1)
    args = asked.parse_args()
    write(args.path, args.engine, args.size, args.seed)


if __name__ == "__main__":
    main()
