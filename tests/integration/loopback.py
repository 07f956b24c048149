"""Real parts on loopback: OpenSSH's own sshd with keys of its own, a process that looks like a serving engine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
from pathlib import Path

from dflash_doctor.hosts import resolve


def sshd_program() -> str | None:
    """sshd wants to be called by its whole path; it is often not on PATH."""
    return shutil.which("sshd") or next(
        (p for p in ("/usr/sbin/sshd", "/usr/local/sbin/sshd") if os.path.exists(p)), None
    )


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def wait_until(true, seconds: float = 10.0, what: str = "it"):
    """Wait for something real to happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := true():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {seconds} s")


class Sshd:
    """One sshd of our own: host key, one authorised key, its log at DEBUG so that channels can be counted."""

    def __init__(self, folder: Path, extra: str = "", key: Path | None = None) -> None:
        self.folder, self.port = folder, free_port()
        folder.mkdir(mode=0o700, exist_ok=True)
        self.log = folder / "sshd.log"
        self.known_hosts = folder / "known_hosts"
        self.host_key = self.make_key("host_key")
        self.client_key = key or self.make_key("client_key")
        (folder / "authorized_keys").write_bytes(self.client_key.with_suffix(".pub").read_bytes())
        self.know(self.host_key)
        user = subprocess.run(["id", "-un"], check=True, capture_output=True, text=True).stdout.strip()
        (folder / "sshd_config").write_text(
            textwrap.dedent(
                f"""\
                ListenAddress 127.0.0.1
                Port {self.port}
                HostKey {self.host_key}
                PidFile {folder}/sshd.pid
                AuthorizedKeysFile {folder}/authorized_keys
                PasswordAuthentication no
                KbdInteractiveAuthentication no
                UsePAM no
                StrictModes no
                PermitRootLogin prohibit-password
                AllowUsers {user}
                LogLevel DEBUG1
                {extra}
                """
            )
        )
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # only root's sshd asks for this folder
        program = sshd_program()
        assert program is not None
        self.process = subprocess.Popen([program, "-D", "-f", str(folder / "sshd_config"), "-E", str(self.log)])
        wait_until(lambda: "Server listening" in self.said, what="sshd's start")

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def make_key(self, name: str) -> Path:
        """A new key pair in the folder."""
        path = self.folder / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
        return path

    def know(self, key: Path) -> None:
        """Let known_hosts say that this is the host's key."""
        public = " ".join(key.with_suffix(".pub").read_text().split()[:2])
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {public}\n")

    def config(self, more: str = "", **changed: object) -> Path:
        """An ssh_config with the host `box`."""
        said = {
            "HostName": "127.0.0.1", "Port": self.port, "IdentityFile": self.client_key, "IdentitiesOnly": "yes",
            "IdentityAgent": "none", "UserKnownHostsFile": self.known_hosts, "GlobalKnownHostsFile": "none", **changed,
        }  # fmt: skip
        path = self.folder / f"config{len(list(self.folder.glob('config*')))}"
        lines = [f"  {k} {v}" for k, v in said.items() if v is not None]
        path.write_text("\n".join(["Host box", *lines, more, ""]))
        return path

    def host(self, target: str = "box", more: str = "", **changed: object):
        """The resolved host."""
        return resolve(target, self.config(more, **changed))

    def sessions(self) -> int:
        """Session channels that clients have opened."""
        return self.said.count("server_input_channel_open: ctype session")

    def forwards(self) -> int:
        """Forwarded channels that clients have opened."""
        return self.said.count("server_input_channel_open: ctype direct-tcpip")

    def children(self) -> list[str]:
        """Command lines of everything that still runs for somebody who is logged in."""
        found, parents = [], {self.process.pid}
        for _ in range(4):
            for name in os.listdir("/proc"):
                if name.isdigit() and int(name) not in parents:
                    try:
                        stat = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                        if int(stat[1]) in parents and stat[0] != "Z":
                            parents.add(int(name))
                            found.append(Path(f"/proc/{name}/cmdline").read_text().replace("\0", " "))
                    except (OSError, ValueError, IndexError):
                        continue
        return found

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(5)


ENGINE = '''
"""Looks like vLLM's API server: answers what is asked of one, and logs as one."""
import http.server, json, sys, time

port = int(sys.argv[sys.argv.index("--port") + 1])
METRICS = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 0.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="tiny"} %d.0
"""

def log(text):
    print("(APIServer pid=1) INFO %s [api_utils.py:286] %s" % (time.strftime("%m-%d %H:%M:%S"), text), flush=True)

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        answers = {
            "/metrics": METRICS % (time.time() * 100),
            "/version": json.dumps({"version": "0.32.0"}),
            "/v1/models": json.dumps({"data": [{"id": "tiny", "root": "/m/tiny", "max_model_len": 2048}]}),
        }
        body = answers.get(self.path)
        if self.path == "/v1/models" and self.headers.get("Authorization") != "Bearer Geheim-Key-42":
            self.answer(401, "{}")
        elif body is None:
            self.answer(404, "{}")
        else:
            self.answer(200, body)

    def answer(self, status, body):
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, form, *args):
        print('(APIServer pid=1) INFO:     127.0.0.1:1 - "GET %s HTTP/1.1" 200 OK' % self.path, flush=True)

log("non-default args: {'model_tag': 'tiny', 'api_key': ['Geheim-Key-42'], 'port': %d}" % port)
log("Initializing a V1 LLM engine (v0.32.0) with config: model='/m/tiny'")
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
'''


class FakeEngine:
    """A process whose command line, environment, log and answers are those of a vLLM server."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        package = folder / "vllm" / "entrypoints" / "openai"
        package.mkdir(parents=True)
        for at in (package, package.parent, package.parent.parent):
            (at / "__init__.py").touch()
        (package / "api_server.py").write_text(ENGINE)
        site = folder / "venv" / "lib" / "python3.12" / "site-packages"
        for name in ("vllm-0.32.0", "torch-2.11.0", "flash_attn-2.8.3"):
            (site / f"{name}.dist-info").mkdir(parents=True)
        (folder / "model").mkdir()
        (folder / "model" / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')
        self.log = folder / "server.log"
        env = {**os.environ, "PYTHONPATH": str(folder), "VLLM_LOGGING_LEVEL": "INFO", "HF_TOKEN": "hf_GeheimGeheim1234",
               "VIRTUAL_ENV": str(folder / "venv"), "DB_PASSWORD": "Geheim-DB-7"}  # fmt: skip
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder / "model"), "--port",
                 str(self.port), "--api-key", "Geheim-Key-42"],
                env=env, stdout=log, stderr=log, cwd=folder,
            )  # fmt: skip
        wait_until(self._answers, what="the engine's start")

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/version", timeout=1) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(5)
