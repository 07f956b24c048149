"""What a newcomer is told by `--help`, by the shell's completion, and how soon."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.command_line import refused, run

COMMANDS = (
    "diagnose", "check", "history", "collect", "bundle", "port", "explain", "demo", "baseline capture", "baseline list",
    "baseline show", "baseline diff", "baseline rm",
)  # fmt: skip
ENTRY = re.compile(r"^  (?P<name>\S.*?)(?:\s{2,}(?P<says>\S.*))?$")


def entries(text):
    """Arguments and options of a help page: what they are called, what is said of them."""
    found, names = [], ""
    for line in re.split(r"^(?:Arguments|Options):\n", text, maxsplit=1, flags=re.M)[1].splitlines():
        if match := ENTRY.match(line):
            names = match["name"]
            found.append([names, match["says"] or ""])
        elif line.startswith("   ") and found:
            found[-1][1] += f" {line.strip()}"
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained_in_whole_sentences(command):
    text = run(*command.split(), "--help").stdout
    for name, says in entries(text):
        said = re.sub(r"\s*\[(default|required|\d).*", "", says.strip())
        assert said[:1].isupper() or said[:1] in "g$", f"{name}: {says}"
        assert said.endswith("."), f"{name}: {says}"
        assert "<str>" not in name or name.split()[0].isupper(), f"{name} says nothing of what it takes"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_help_page_fits_eighty_columns(command):
    assert max(map(len, run(*command.split(), "-h").stdout.splitlines())) <= 80


def test_what_most_people_need_stands_before_the_rest():
    text = run("diagnose", "--help").stdout
    heads = [line for line in text.splitlines() if re.fullmatch(r"[A-Z][A-Za-z ]+:", line)]
    assert heads == ["Arguments:", "Options:", "The load:", "Reaching the host:", "Where things are kept:"]
    assert text.index("--baseline") < text.index("The load:") < text.index("--preset")


def test_commands_are_listed_with_a_sentence_that_is_not_cut_off():
    for command in ((), ("baseline",)):
        listed = run(*command, "--help").stdout.split("Commands:\n")[1].splitlines()
        assert all(line.endswith(".") and not line.endswith("...") for line in listed)


def complete(*words, home):
    """What bash would be offered."""
    env = {**os.environ, "_DFLASH_DOCTOR_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["dflash-doctor", *words]),
           "COMP_CWORD": str(len(words)), "XDG_DATA_HOME": str(home)}  # fmt: skip
    program = "import sys; sys.argv[0] = 'dflash-doctor'; from dflash_doctor.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=20)
    assert done.stderr == ""
    return done.stdout.split()


def test_the_shell_completes_what_there_is(tmp_path):
    assert "diagnose" in complete("dia", home=tmp_path)
    assert complete("explain", "spec.not", home=tmp_path) == ["spec.not_active"]
    assert complete("demo", "a6000-f", home=tmp_path) == ["a6000-flash-attn-4"]
    assert complete("diagnose", "gpu7", "--format", "m", home=tmp_path) == ["markdown"]
    assert complete("diagnose", "gpu7", "--preset", "st", home=tmp_path) == ["standard"]
    mine = tmp_path / "dflash-doctor" / "baselines" / "qwen.mine.yaml"
    mine.parent.mkdir(parents=True)
    mine.touch()
    for words in (("diagnose", "gpu7", "--baseline", "qwen"), ("baseline", "show", "qwen")):
        offered = complete(*words, home=tmp_path)
        assert offered[0] == "qwen.mine" and "qwen3.6-27b.a6000x2.sglang-mtp" in offered


def test_help_and_completion_load_nothing_heavy():
    program = (
        "import sys; from dflash_doctor.cli import app\n"
        "try: app(['diagnose', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'httpx', 'paramiko', 'pandas', 'numpy', 'scipy', 'yaml', 'asyncio'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20)
    assert done.stderr == "[]\n"


def test_a_word_mistyped_is_met_with_the_one_that_was_meant():
    done = run("diagnos")
    assert done.exit_code == 2 and "Did you mean 'diagnose'?" in done.stderr
    assert "near it: acceptance" not in refused("explain", "nothing.like.it")


def test_a_family_lists_its_causes_with_a_line_for_each():
    done = run("explain", "spec")
    assert done.exit_code == 0
    assert {line.split(".")[0] for line in done.stdout.splitlines() if not line.startswith(" ")} == {"spec"}
    assert len(run("explain").stdout) > 3 * len(done.stdout)
