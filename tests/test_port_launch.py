"""The launch is something one can paste: a shell, a compose file and a pod take it as it is."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest
import typer
import yaml
from porting import sglang, side, vllm
from typer.testing import CliRunner

from dflash_doctor import settings
from dflash_doctor.cli import porting
from dflash_doctor.model import Refused
from dflash_doctor.parsers import cmdline
from dflash_doctor.port import as_compose, as_kubernetes, as_shell, port, show
from dflash_doctor.port.snippets import argv, quoted

LORA = "--tp 2 --enable-lora --lora-paths 'a b=/models/x y' --api-key sesame --json-model-override-args '{\"a\": \"$HOME `id`\"}'"  # noqa: E501


def test_a_shell_reads_back_the_words_that_were_meant():
    launch = port(sglang(LORA), "vllm", "0.33.0").launch
    read = shlex.split(as_shell(launch).replace("\\\n", ""), comments=True)
    assert read == [*argv(launch), "--api-key", "$API_KEY"]


def test_secrets_are_left_to_the_shell_that_runs_it():
    text = as_shell(port(sglang(LORA), "vllm", "0.33.0").launch)
    assert '--api-key "$API_KEY"' in text and "sesame" not in text


@pytest.mark.parametrize("form", [as_compose, as_kubernetes])
def test_our_own_parser_reads_the_same_settings_from_every_form(form):
    launch = port(sglang("--tp 2 --context-length 8192 --quantization fp8"), "vllm", "0.20.1").launch
    assert as_settings(form(launch)) == as_settings(as_shell(launch))


def as_settings(text: str) -> dict:
    facts = cmdline.parse(text, "cmdline")
    assert facts.engine == "vllm"
    return {s.key: s.value for s in facts.settings}


def test_compose_asks_for_as_many_cards_as_the_launch_takes():
    service = yaml.safe_load(as_compose(port(sglang("--tp 4 --dp 2"), "vllm", "0.20.1").launch))["services"]["vllm"]
    assert service["image"] == "vllm/vllm-openai:v0.20.1"
    assert service["deploy"]["resources"]["reservations"]["devices"][0]["count"] == 8
    assert service["volumes"] == ["/models/m:/models/m:ro"]


def test_a_pod_of_sglang_says_its_command_since_the_image_has_none():
    pod = yaml.safe_load(as_kubernetes(port(vllm("--tensor-parallel-size 2"), "sglang").launch))
    container = pod["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["python3", "-m", "sglang.launch_server"]
    assert container["args"][:2] == ["--model-path", "/models/m"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 2}}


def test_unknown_flags_are_marked_in_every_form():
    launch = port(sglang("--frobnicate hard"), "vllm").launch
    for text in (as_shell(launch), as_compose(launch), as_kubernetes(launch)):
        assert "# not known to the map" in text and "--frobnicate hard" in text
    assert "--frobnicate" not in argv(launch)


# -- text from a host is hostile --------------------------------------------------------------------------------------


@pytest.mark.parametrize("evil", ["$(touch x)", "`id`", "a'b", 'a"b', "a\\b", "a\nb", "a;rm -rf /", "!!", "~", "*"])
def test_no_value_reaches_a_shell_as_code(evil):
    # `sh` of this machine may not know $'…'; bash and zsh do
    said = subprocess.run(["bash", "-c", f"printf %s {quoted(evil)}"], capture_output=True, text=True, check=True)
    assert said.stdout == evil


@pytest.mark.parametrize("evil", ["\x1b]0;owned\x07", "\x1b[2J", "\u202egnp.exe", "\r\x00"])
def test_no_value_writes_to_the_terminal(evil):
    tuned = sglang("--tp 2")
    found = dict(tuned.asked)
    found["model.path"] = settings.from_args("sglang", {"model_path": f"/m/{evil}"}, None, "asked")[0]
    from dataclasses import replace

    p = port(replace(tuned, name=evil, asked=found, settings={**tuned.settings, **found}), "vllm")
    for text in (show.terminal(p), show.markdown(p), show.as_json(p)):
        assert all(c.isprintable() or c == "\n" for c in text)


def test_markdown_stays_one_table_whatever_the_values_say():
    p = port(sglang("--served-model-name 'a|b`c<script>'"), "vllm")
    table = [line for line in show.markdown(p).splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    assert "<script>" not in "".join(table)


# -- the command ------------------------------------------------------------------------------------------------------


def run(*args: str):
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(porting.port)
    return CliRunner().invoke(app, list(args), catch_exceptions=True)


@pytest.fixture
def tuned(tmp_path):
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned" / "cmdline").write_text("python3 -m sglang.launch_server --model-path /m --tp 2 --frob x")
    (tmp_path / "fresh").mkdir()
    (tmp_path / "fresh" / "cmdline").write_text("vllm serve /m -tp 1")
    return tmp_path


def test_the_command_prints_the_launch_and_the_table(tuned):
    said = run(f"{tuned}/tuned", "--to", "vllm", "--against", f"{tuned}/fresh", "--version", "0.20.1")
    assert said.exit_code == 0, said.output
    assert "--tensor-parallel-size 2" in said.output
    assert "was 2 (set); is 1 (set)" in said.output
    assert "1 not known to the map" in said.output


def test_json_is_one_document_of_a_named_schema(tuned):
    document = json.loads(run(f"{tuned}/tuned", "--to", "vllm", "-f", "json").stdout)
    assert document["schema"] == "dflash-doctor/port/1"
    assert document["launch"]["command"][:3] == ["vllm", "serve", "/m"]
    assert document["launch"]["unknown"] == [["--frob", "x"]]


def test_the_launch_alone_can_be_piped_into_a_file(tuned):
    said = run(f"{tuned}/tuned", "--to", "vllm", "-f", "launch", "--as", "compose")
    assert list(yaml.safe_load(said.stdout)) == ["services"]


def test_a_baselines_name_is_found_before_a_host_of_that_name():
    said = run("qwen3.6-27b.a6000x2.sglang-mtp", "--to", "vllm", "--version", "0.20.1")
    assert '"method": "mtp"' in said.output


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--to", "trtllm"), "--to trtllm"),
        (("--to", "vllm", "--as", "helm"), "--as helm"),
        (("--to", "vllm", "-f", "html"), "--format html"),
    ],
)
def test_bad_words_are_refused_before_anything_is_looked_at(tuned, args, says):
    said = run(f"{tuned}/tuned", *args)
    assert isinstance(said.exception, Refused) and says in str(said.exception)


def test_a_name_near_a_baselines_is_no_host():
    said = run("qwen3.6-27b.a6000x2.sglang-mpt", "--to", "vllm")
    assert isinstance(said.exception, Refused) and "near it" in str(said.exception)


def test_importing_the_command_costs_nothing():
    probe = "import sys; import dflash_doctor.cli.porting; print('dflash_doctor.port' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


def test_a_docker_launch_is_read_through():
    launch = "docker run -e A=1 lmsysorg/sglang:v0.5.10 python3 -m sglang.launch_server --model /m --tp 2"
    p = port(side(launch, "x==1"), "vllm", "0.20.1")
    assert p.version == "0.5.10" and ("--tensor-parallel-size", "2") in p.launch.flags
