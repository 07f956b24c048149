"""The plan names everything that would be read."""

import shlex
import subprocess

from dflash_doctor.collect import plan, program
from dflash_doctor.hosts import resolve


def test_the_plan_names_every_question_and_every_command(tmp_path):
    (tmp_path / "config").write_text("")
    text = plan(resolve("gpu7", tmp_path / "config"))
    for q in program.questions()["questions"]:
        assert f"{q['name']} -> {q['file']}" in text
        if "run" in q:
            assert "runs " + " ".join(q["run"]) in text
    for word in ("docker|podman logs", "nvidia-smi topo -m", "/v1/models", "VLLM_*", "over one SSH connection"):
        assert word in text


def test_of_an_endpoint_the_plan_names_addresses_only():
    text = plan(resolve("http://gpu7:8000"))
    assert "GET http://gpu7:8000/metrics" in text and "nvidia-smi" not in text


def test_the_loader_survives_any_login_shell():
    for shell_only in (False, True):
        text = program.loader(shell_only)
        assert "'" not in text and "!" not in text and "\n" not in text
        assert shlex.split(f"sh -c '{text}'")[2] == text
        subprocess.run(["sh", "-n", "-c", text], check=True)


def test_the_shell_program_is_plain_sh():
    subprocess.run(["sh", "-n"], input=program.shell_payload({"engine_port": 8000}), check=True)
    head = program.shell_payload({"engine_port": "8000"}).decode().splitlines()
    assert head[0] == "engine_port=8000" and head[1].startswith("allowed='^(VLLM_[A-Za-z0-9_]*|")
