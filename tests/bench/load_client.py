"""Load clients side by side against one server whose clock is known: how far off each is, and what of a core it takes.

    python -m tests.bench.load_client                                  # ours and the bare one, own clock server
    python -m tests.bench.load_client --server clock_server.py --vllm .venv/bin/vllm --guidellm .venv/bin/guidellm

Every client sends the same requests, begun 2 ms apart, in a process of its own; repeats take turns. Errors are against
what the server really sent, in milliseconds (TTFT) and percent (TPOT). CPU is that of the client's process between the
two sizes, so that starting up is left out. `bare` reads and stamps and understands nothing: the least that a client in
Python can take here. A server given by --server takes --port --ttft-ms --itl-ms and serves /truth and /reset.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import httpx

TTFT_MS, APART_S = 50.0, 0.002
OWN = Path(__file__).parents[1] / "integration" / "clockwork.py"


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# -- the clients: each prints {"ttft_ms": […], "tpot_ms": […]} ---------------------------------------------------------


def bare(url, streams, tokens):
    """epoll, recv_into, a stamp; the first read is the head, the last one ends the answer."""
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps({
        "model": "clock", "max_tokens": tokens, "temperature": 0, "stream": True, "ignore_eos": True,
        "stream_options": {"include_usage": True}, "messages": [{"role": "user", "content": "hello"}],
    }).encode()  # fmt: skip
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
    )
    asked = head.format(host, len(body)).encode() + body
    poll, room = select.epoll(), bytearray(1 << 16)
    socks = [socket.create_connection((host, int(port))) for _ in range(streams)]
    stamps, sent, waiting = {s.fileno(): [] for s in socks}, {}, list(reversed(socks))
    by_fd = {s.fileno(): s for s in socks}
    begin, left = time.monotonic(), streams
    while left:
        while waiting and time.monotonic() >= begin + len(sent) * APART_S:
            s = waiting.pop()
            s.sendall(asked)
            sent[s.fileno()] = time.monotonic()
            s.setblocking(False)
            poll.register(s, select.EPOLLIN)
        for fd, _ in poll.poll(0.001 if waiting else -1):
            n = by_fd[fd].recv_into(room)
            stamps[fd].append(time.monotonic())
            if room[n - 5 : n] == b"0\r\n\r\n":
                poll.unregister(fd)
                left -= 1
    rows = [(x[1] - sent[fd], (x[-1] - x[1]) / (tokens - 1)) for fd, x in stamps.items()]
    return [1000 * r[0] for r in rows], [1000 * r[1] for r in rows]


def ours(url, streams, tokens):
    from dflash_doctor.load.client import Ask, send
    from dflash_doctor.load.heard import understood
    from dflash_doctor.load.hotloop import run
    from dflash_doctor.load.watching import keeping_up
    from dflash_doctor.load.wire import Transport

    async def one(client, i, begin):
        await asyncio.sleep(begin + i * APART_S - asyncio.get_running_loop().time())
        return await send(client, Ask(str(i), "hello", tokens, "clock"))

    async def all_of_them():
        async with httpx.AsyncClient(base_url=url, transport=Transport(), timeout=60, trust_env=False) as client:
            await asyncio.gather(*(client.get("/v1/models") for _ in range(streams)))  # as a warm-up leaves them: open
            begin = asyncio.get_running_loop().time() + 0.05
            async with keeping_up() as me:
                heard = await asyncio.gather(*(one(client, i, begin) for i in range(streams)))
        found = [understood(h, begin) for h in heard]
        assert all(r.status == "ok" and r.output_tokens == tokens for r in found), found[0]
        print(f"cpu share {me.cpu_share:.2f}, late by {1000 * me.late_s:.0f} ms at most", file=sys.stderr)
        return [r.ttft_ms for r in found], [r.tpot_ms for r in found]

    return run(all_of_them())


def vllm(url, streams, tokens, how):
    """`vllm bench serve`, whose own result file has every request."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            how.vllm, "bench", "serve", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions",
            "--base-url", url, "--model", "clock", "--tokenizer", how.tokenizer, "--dataset-name", "random",
            "--random-input-len", "8", "--random-output-len", str(tokens), "--num-prompts", str(streams),
            "--request-rate", str(1 / APART_S),
            "--burstiness", "1000000", "--ignore-eos", "--disable-tqdm", "--save-result",
            "--save-detailed", "--result-dir", folder, "--result-filename", "r.json", "--ready-check-timeout-sec", "0",
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        r = json.loads(Path(folder, "r.json").read_text())
    return [1000 * t for t in r["ttfts"]], [1000 * sum(gaps) / (tokens - 1) for gaps in r["itls"]]


def guidellm(url, streams, tokens, how):
    """GuideLLM at a constant rate; its inter-token latency is what others call TPOT."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "r.json")
        command = [
            how.guidellm, "run", "--backend", f"kind=openai_http,target={url},model=clock",
            "--profile", f"kind=constant,rate={1 / APART_S}", "--constraint", f"kind=max_requests,count={streams}",
            "--data", f"kind=synthetic_text,prompt_tokens=16,output_tokens={tokens}",
            "--tokenizer", f"kind=hf_auto,model={how.tokenizer}", "--output", f"kind=json,path={file}",
            "--disable-console",
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        done = json.loads(file.read_text())["benchmarks"][0]["requests"]["successful"]
    return [r["time_to_first_token_ms"] for r in done], [r["inter_token_latency_ms"] for r in done]


# -- the comparison ---------------------------------------------------------------------------------------------------


def measured(name, url, tokens, how):
    """Errors of TTFT (ms) and of TPOT (a share) at the median and at p99, CPU seconds, and what the server kept."""
    httpx.get(f"{url}/reset")
    words = [sys.executable, "-m", "tests.bench.load_client", "--as", name, "--url", url, "--size", str(tokens)]
    words += [
        "--streams",
        str(how.streams),
        "--tokenizer",
        how.tokenizer,
        "--vllm",
        how.vllm,
        "--guidellm",
        how.guidellm,
    ]
    child = subprocess.Popen(words, stdout=subprocess.PIPE)
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{name} failed")
    ttft, tpot = json.loads(said)
    told = [t for t in httpx.get(f"{url}/truth").json()["requests"] if t["tokens"] == tokens][-len(ttft) :]
    true_ttft, true_tpot = [t["ttft_ms"] for t in told], [t["tpot_ms"] for t in told]
    return {
        "ttft": median(ttft) - median(true_ttft), "ttft99": quantile(ttft, 0.99) - quantile(true_ttft, 0.99),
        "tpot": median(tpot) / median(true_tpot) - 1, "tpot99": quantile(tpot, 0.99) / quantile(true_tpot, 0.99) - 1,
        "cpu": used.ru_utime + used.ru_stime, "kept": how.rate * median(true_tpot) / 1000,
    }  # fmt: skip


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--server", type=Path, default=OWN, help="a clock server's program")
    p.add_argument("--streams", type=int, default=64)
    p.add_argument("--rate", type=float, default=200.0, help="tokens a second of each stream")
    p.add_argument("--sizes", default="200,600", help="tokens of each answer: a small and a large one")
    p.add_argument("--repeats", type=int, default=3)
    found = Path(os.environ.get("DFLASH_DOCTOR_VLLM", "/nowhere"), "bin", "vllm")
    p.add_argument("--vllm", default=str(found) if found.exists() else "", help="the program vllm")
    p.add_argument("--guidellm", default="", help="the program guidellm")
    p.add_argument("--tokenizer", default="", help="folder of a tokenizer, for the peers")
    for hidden, kind in (("--as", str), ("--url", str), ("--size", int)):
        p.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    how = p.parse_args()
    if name := getattr(how, "as"):
        peers = {"vllm": vllm, "guidellm": guidellm}
        alone = {"bare": bare, "ours": ours}
        found = (
            alone[name](how.url, how.streams, how.size)
            if name in alone
            else peers[name](how.url, how.streams, how.size, how)
        )
        print(json.dumps(found))
        return
    names = ["bare", "ours", *(n for n in ("vllm", "guidellm") if getattr(how, n))]
    compare(names, [int(s) for s in how.sizes.split(",")], how)


def compare(names, sizes, how):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable,
        str(how.server),
        "--port",
        str(port),
        "--ttft-ms",
        str(TTFT_MS),
        "--itl-ms",
        str(1000 / how.rate),
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(100):
            try:
                httpx.get(f"{url}/truth")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        rows = {(n, s): [] for n in names for s in sizes}
        loads = [os.getloadavg()[0]]
        for _ in range(how.repeats):
            for n in names:
                for s in sizes:
                    rows[n, s].append(measured(n, url, s, how))
                    loads.append(os.getloadavg()[0])
    finally:
        server.kill()
        server.wait()
    print(f"{how.streams} streams x {how.rate:g} tok/s, {how.repeats} repeats, load average {median(loads):.1f} "
          f"on {os.cpu_count()} cores")  # fmt: skip
    print("client     TTFT median    p99    TPOT median     p99    CPU s / M tokens   server's TPOT against its plan")
    for n in names:

        def middle(key, n=n):
            return median(r[key] for r in rows[n, sizes[-1]])

        slopes = [
            1e6 * (b["cpu"] - a["cpu"]) / (how.streams * (sizes[-1] - sizes[0]))
            for a, b in zip(rows[n, sizes[0]], rows[n, sizes[-1]], strict=True)
        ]
        print(f"{n:10} {middle('ttft'):+8.2f} ms {middle('ttft99'):+7.1f} {middle('tpot'):+13.3%} "
              f"{middle('tpot99'):+8.2%} {median(slopes):10.1f} {middle('kept'):22.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
