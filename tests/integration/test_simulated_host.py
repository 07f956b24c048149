"""The simulated host through real sockets: what a client measures is what the scenario says and the counters count."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import threading
import time
from contextlib import ExitStack
from itertools import pairwise
from statistics import mean

import httpx
import paramiko
import pytest

from dflash_doctor.simulate import scenario as scenarios
from dflash_doctor.simulate.background import BackgroundLoop
from dflash_doctor.simulate.host import Keys, SimulatedHost, write_ssh_config


def quick(**changes):
    """The tuned host, three times as fast, so that a test of seconds sees many steps."""
    base = {
        "timing": {"step_time_ms": {1: 15.0, 4: 18.0}, "noise": 0.02, "boot_noise": 0.0},
        "acceptance": {"spread": 0.0},
    }
    return scenarios.vary(scenarios.load("a6000-tuned"), **scenarios.merge(base, changes))


async def stream(client, url, model, prompt, max_tokens):
    """(moment, tokens) of every content chunk, and the usage."""
    body = {
        "model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens, "stream": True,
        "stream_options": {"include_usage": True}, "temperature": 0,
    }  # fmt: skip
    chunks, usage = [], None
    async with client.stream("POST", f"{url}/v1/chat/completions", json=body) as reply:
        assert reply.status_code == 200
        async for line in reply.aiter_lines():
            now = time.perf_counter()
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            for choice in event["choices"]:
                if text := choice["delta"].get("content"):
                    chunks.append((now, len(text.split())))
    return chunks, usage


def metric(text, name):
    """Sum of all series of one metric."""
    return sum(
        float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} "))
    )


def load(host, concurrency, max_tokens, rounds=1):
    async def all_of_them():
        async with httpx.AsyncClient(timeout=30) as client:
            before = (await client.get(f"{host.url}/metrics")).text
            answers = []
            for r in range(rounds):
                answers += await asyncio.gather(
                    *(
                        stream(client, host.url, host.scenario.model.name, f"prompt {r} {i}", max_tokens)
                        for i in range(concurrency)
                    )
                )
            return answers, before, (await client.get(f"{host.url}/metrics")).text

    return asyncio.run(all_of_them())


def test_a_client_recovers_step_time_and_tokens_per_step():
    with SimulatedHost(quick()) as host:
        answers, _, _ = load(host, concurrency=1, max_tokens=300, rounds=2)
    gaps = [b[0] - a[0] for chunks, _ in answers for a, b in pairwise(chunks)]
    assert len(gaps) > 150
    assert mean(gaps) * 1000 == pytest.approx(15.0, rel=0.01)
    # the first chunk is the prefill's one token, the last is cut at the limit
    tokens = [n for chunks, _ in answers for _, n in chunks[1:-1]]
    assert mean(tokens) == pytest.approx(3.2, rel=0.01)


def test_the_counters_say_what_the_client_received():
    vllm = scenarios.vary(
        scenarios.load("a6000-dflash"), timing={"step_time_ms": 5.0}, acceptance={"chances": [0.9, 0.7, 0.4, 0.1]}
    )
    with SimulatedHost(vllm) as host:
        answers, before, after = load(host, concurrency=3, max_tokens=120, rounds=2)

    def grown(name):
        return metric(after, f"vllm:{name}") - metric(before, f"vllm:{name}")

    chunks = [c for c, _ in answers]
    assert grown("generation_tokens_total") == sum(u["completion_tokens"] for _, u in answers) == 6 * 120
    assert grown("prompt_tokens_total") == sum(u["prompt_tokens"] for _, u in answers)
    assert grown("spec_decode_num_drafts_total") == sum(len(c) - 1 for c in chunks)
    assert grown("spec_decode_num_accepted_tokens_total") >= sum(n - 1 for c in chunks for _, n in c)
    assert grown("spec_decode_num_accepted_tokens_total") <= sum(n - 1 for c in chunks for _, n in c) + 6 * 15
    assert grown("spec_decode_num_accepted_tokens_per_pos_total") == grown("spec_decode_num_accepted_tokens_total")
    assert grown("request_success_total") == grown("time_to_first_token_seconds_count") == 6
    assert grown("inter_token_latency_seconds_count") == grown("spec_decode_num_drafts_total")
    assert metric(after, "vllm:num_requests_running") == 0


def test_requests_share_the_steps():
    with SimulatedHost(quick()) as host:
        answers, _, _ = load(host, concurrency=4, max_tokens=160)
    gaps = [b[0] - a[0] for chunks, _ in answers for a, b in pairwise(chunks)]
    assert mean(gaps) * 1000 == pytest.approx(18.0, rel=0.03), "the first steps have fewer requests in them"


def test_running_requests_show_in_metrics_log_and_cards():
    with SimulatedHost(quick(log={"decode_steps": 5})) as host, httpx.Client(timeout=10) as client:
        lines = host.log_text.count("Decode batch")
        load_it = threading.Thread(target=lambda: load(host, concurrency=2, max_tokens=120))
        load_it.start()
        time.sleep(0.4)
        assert metric(client.get(f"{host.url}/metrics").text, "sglang:num_running_reqs") == 2
        assert " " in (host.folder / "busy").read_text(), "the cards are told that there is work"
        load_it.join()
        assert host.log_text.count("Decode batch") > lines
        assert "#running-req: 2" in host.log_text.split("Decode batch")[-2]
        assert 'POST /v1/chat/completions HTTP/1.1" 200 OK' in host.log_text
        time.sleep(0.05)
        assert " " not in (host.folder / "busy").read_text()


def test_a_client_that_hangs_up_frees_its_place():
    with SimulatedHost("a6000-dflash") as host, httpx.Client(timeout=10) as client:
        body = {"model": host.scenario.model.name, "prompt": "go on", "max_tokens": 1000, "stream": True}
        with client.stream("POST", f"{host.url}/v1/completions", json=body) as reply:
            lines = reply.iter_lines()
            next(lines)
            assert metric(httpx.get(f"{host.url}/metrics").text, "vllm:num_requests_running") == 1
        time.sleep(0.1)
        after = httpx.get(f"{host.url}/metrics").text
        assert metric(after, "vllm:num_requests_running") == 0
        assert 'finished_reason="abort"} 1.0' in after


def test_other_peoples_requests_are_seen():
    with SimulatedHost(quick(traffic={"concurrency": 2, "output_tokens": 1000})) as host:
        time.sleep(0.2)
        assert metric(httpx.get(f"{host.url}/metrics").text, "sglang:num_running_reqs") == 2


def test_the_pages_of_each_engine():
    with SimulatedHost("a6000-tuned") as sglang, SimulatedHost("a6000-dflash") as vllm:
        info = httpx.get(f"{sglang.url}/get_server_info").json()
        assert (info["version"], info["tp_size"], info["speculative_algorithm"]) == ("0.5.10", 2, "EAGLE")
        assert info["internal_states"][0]["avg_spec_accept_length"] == pytest.approx(3.2, rel=0.1)
        assert httpx.get(f"{sglang.url}/version").status_code == 404
        assert httpx.get(f"{vllm.url}/version").json() == {"version": "0.20.1"}
        assert httpx.get(f"{vllm.url}/server_info").status_code == 404
        assert httpx.get(f"{vllm.url}/v1/models").json()["data"][0]["max_model_len"] == 32768
        assert httpx.get(f"{vllm.url}/health").status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"{", 400, "Invalid JSON"),
        (b"[]", 400, "not an object"),
        (b'{"model": "other", "prompt": "x"}', 404, "does not exist"),
        (b'{"prompt": "x", "max_tokens": 0}', 400, "at least 1"),
        (b'{"prompt": ""}', 400, "prompt must be"),
        (json.dumps({"prompt": "word " * 30000}).encode(), 400, "maximum context length is 32768"),
    ],
)
def test_a_bad_request_is_refused_as_the_engine_does(body, status, says):
    with SimulatedHost("a6000-dflash") as host:
        reply = httpx.post(f"{host.url}/v1/completions", content=body)
        assert reply.status_code == status and says in reply.json()["error"]["message"]


def connect(host):
    client = paramiko.SSHClient()
    client.load_host_keys(str(host.folder / "known_hosts"))
    client.connect(
        "127.0.0.1", host.ssh_port, "root", key_filename=str(host.folder / "id_ecdsa"), allow_agent=False,
        look_for_keys=False,
    )  # fmt: skip
    return client


def test_a_command_runs_on_the_made_up_host_and_nowhere_else():
    with SimulatedHost("a6000-dflash") as host, connect(host) as client:
        _, out, err = client.exec_command(
            "tr '\\0' ' ' < $DFLASH_DOCTOR_ROOT/proc/2101/cmdline; nvidia-smi --query-gpu=name --format=csv,noheader;"
            " docker ps; exit 7"
        )
        said = out.read().decode()
        assert "vllm serve /models/Qwen3.6-27B --tensor-parallel-size 2" in said and f"--port {host.port}" in said
        assert said.count("NVIDIA RTX A6000") == 2
        assert "docker: not found" in err.read().decode(), "only the made-up host's commands are there"
        assert out.channel.recv_exit_status() == 7
        assert host.seen.sessions == 1


def test_what_is_typed_reaches_the_command_and_its_end_too():
    with SimulatedHost("healthy") as host, connect(host) as client:
        stdin, out, _ = client.exec_command("cat; echo done")
        stdin.write("x" * 300_000)
        stdin.channel.shutdown_write()
        assert len(out.read()) == 300_000 + len("done\n")


def test_the_engines_port_is_forwarded_and_no_other():
    with SimulatedHost("healthy") as host, connect(host) as client, socket.create_server(("127.0.0.1", 0)) as other:
        transport = client.get_transport()
        channel = transport.open_channel("direct-tcpip", ("127.0.0.1", host.port), ("127.0.0.1", 0))
        channel.sendall(b"GET /health HTTP/1.1\r\nconnection: close\r\n\r\n")
        assert channel.recv(100).startswith(b"HTTP/1.1 200 OK")
        with pytest.raises(paramiko.ChannelException):
            transport.open_channel("direct-tcpip", ("127.0.0.1", other.getsockname()[1]), ("127.0.0.1", 0))
        assert (host.seen.forwards, host.seen.sessions) == (1, 0)


def test_a_strange_key_is_refused():
    with SimulatedHost("healthy") as host, paramiko.SSHClient() as client:
        client.load_host_keys(str(host.folder / "known_hosts"))
        with pytest.raises(paramiko.AuthenticationException):
            client.connect(
                "127.0.0.1", host.ssh_port, "root", pkey=paramiko.ECDSAKey.generate(), allow_agent=False,
                look_for_keys=False,
            )  # fmt: skip
        assert host.seen.refused == 1


def test_openssh_reads_the_configuration_that_is_written():
    with SimulatedHost("healthy", name="gpu7") as host:
        try:
            done = subprocess.run(
                ["ssh", "-F", str(host.ssh_config), "gpu7", "echo $((6*7))"], capture_output=True, text=True, timeout=20
            )
        except FileNotFoundError:
            pytest.skip("no OpenSSH client on this machine")
        assert done.stdout == "42\n", done.stderr


def test_a_server_that_fails_leaves_its_log_and_no_port():
    with SimulatedHost("a6000-flash-attn-4-docker") as host, connect(host) as client:
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{host.url}/health")
        _, out, _ = client.exec_command("docker ps -a; docker logs vllm; ls $DFLASH_DOCTOR_ROOT/proc")
        said = out.read().decode()
        assert "Exited (1)" in said
        assert "ModuleNotFoundError: No module named 'flash_attn.ops'" in said
        assert "Engine core initialization failed" in said
        assert "2101\n" not in said, "the process is gone"


def test_nothing_is_left_when_it_ends():
    threads = set(threading.enumerate())
    with SimulatedHost("healthy") as host, connect(host) as client:
        client.exec_command("sleep 60")
        folder, port, ssh_port = host.folder, host.port, host.ssh_port
        time.sleep(0.1)
    assert not folder.exists()
    for closed in (port, ssh_port):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", closed), timeout=1)
    deadline = time.monotonic() + 5
    while set(threading.enumerate()) - threads and time.monotonic() < deadline:
        time.sleep(0.05)
    assert set(threading.enumerate()) <= threads
    left = subprocess.run(["sh", "-c", "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"], capture_output=True)
    assert str(folder).encode() not in left.stdout, "no command runs on"


def test_many_hosts_share_one_thread():
    with ExitStack() as stack:
        loop, keys = stack.enter_context(BackgroundLoop()), Keys()
        small = quick(machine={"cpus": 2}, history=[])
        hosts = [stack.enter_context(SimulatedHost(small, name=f"gpu{i}", loop=loop, keys=keys)) for i in range(12)]
        assert len({h.port for h in hosts} | {h.ssh_port for h in hosts}) == 24
        assert all(httpx.get(f"{h.url}/health").status_code == 200 for h in hosts)
        config = write_ssh_config(hosts, hosts[0].folder / "all").read_text()
        assert config.count("Host gpu") == 12
        assert (hosts[3].root.root / "etc/hostname").read_text() == "gpu3\n"
        assert sum(t.name == "simulated hosts" for t in threading.enumerate()) == 1
        assert os.path.exists(hosts[11].folder)


def test_a_request_without_streaming_is_answered_whole():
    with SimulatedHost(quick()) as host:
        ask = {"messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}], "max_tokens": 12}
        chat = httpx.post(f"{host.url}/v1/chat/completions", json=ask).json()
        assert len(chat["choices"][0]["message"]["content"].split()) == chat["usage"]["completion_tokens"] == 12
        assert chat["choices"][0]["finish_reason"] == "length"
        own = httpx.post(
            f"{host.url}/generate", json={"text": "hello", "sampling_params": {"max_new_tokens": 9}}
        ).json()
        assert own["meta_info"]["completion_tokens"] == 9 and own["meta_info"]["spec_verify_ct"] >= 2
    with SimulatedHost("a6000-dflash") as vllm:
        assert httpx.post(f"{vllm.url}/generate", json={"text": "x"}).status_code == 404, "that is SGLang's"


def raw(host, data):
    with socket.create_connection(("127.0.0.1", host.port), timeout=5) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        said = b""
        while piece := s.recv(65536):
            said += piece
        return said


def test_odd_http_gets_an_answer_and_never_a_hang():
    with SimulatedHost("healthy") as host:
        assert raw(host, b"NONSENSE\r\n\r\n").startswith(b"HTTP/1.1 400")
        assert raw(host, b"\x00" * 70_000).startswith(b"HTTP/1.1 431")
        assert raw(host, b"POST /v1/completions HTTP/1.1\r\ncontent-length: x\r\n\r\n").startswith(b"HTTP/1.1 400")
        chunked = b"POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
        assert raw(host, chunked).startswith(b"HTTP/1.1 411")
        two = b"GET /health HTTP/1.1\r\n\r\nGET /nowhere HTTP/1.1\r\nconnection: close\r\n\r\n"
        answer = raw(host, two)
        assert answer.startswith(b"HTTP/1.1 200") and b"HTTP/1.1 404 Not Found" in answer


def test_a_host_may_have_no_python():
    with SimulatedHost(quick(machine={"python": False})) as host, connect(host) as client:
        _, out, _ = client.exec_command("command -v python3 || echo none; nvidia-smi -L")
        assert out.read().decode().splitlines()[0] == "none"
        assert out.channel.recv_exit_status() == 0


def test_the_cpu_time_of_the_engine_goes_on_with_its_work():
    with SimulatedHost(quick(machine={"cpu_core": 0.9, "throttled": 0.5})) as host:
        stat = host.root.root / "proc/2240/stat"
        before = int(stat.read_text().split()[13])
        load(host, concurrency=1, max_tokens=100)
        time.sleep(0.1)
        assert 20 < int(stat.read_text().split()[13]) - before < 120, "half a second of work, in hundredths"
        quota = (host.root.root / "sys/fs/cgroup/system.slice/sglang.service/cpu.stat").read_text()
        assert int(quota.split("nr_throttled ")[1].split()[0]) > 0


def test_steps_do_not_lie_on_a_grid_of_milliseconds():
    async def late():
        loop = asyncio.get_running_loop()
        when, done = loop.time() + 0.0021, asyncio.Event()
        loop.call_at(when, done.set)
        await done.wait()
        return loop.time() - when

    with BackgroundLoop() as loop:
        assert min(loop.run(late()) for _ in range(30)) < 0.0005, "the next whole millisecond is 0.9 ms away"
