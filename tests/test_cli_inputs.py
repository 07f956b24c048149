"""What people hand over by mistake: one clear sentence on stderr, exit status 2, nothing half-written."""

from __future__ import annotations

import gzip
import io
import os
import re
import tarfile
from pathlib import Path

import pytest

from tests.command_line import refused, run

LOGS = Path(__file__).parent / "logs"
LOG = (LOGS / "v032_base_compiled.log").read_bytes()
SHIPPED = "qwen3.6-27b.a6000x2.sglang-mtp"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder of its own, and no baselines of the person who runs the tests."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def archive(mode="w:gz"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        member = tarfile.TarInfo("case/server.log")
        member.size = len(LOG)
        tar.addfile(member, io.BytesIO(LOG))
    return out.getvalue()


WHOLE = archive()
FILES = {
    "empty.log": (b"", "empty.log is empty"),
    "blank.log": (b" \r\n\t\n", "blank.log is empty"),
    "binary.log": (b"\x7fELF\0\1\2" * 900, "is not text"),
    "noise.log": (bytes(b % 255 | 0x81 for b in range(9000)), "not text"),
    "half.log.gz": (gzip.compress(LOG)[:-40], "damaged or half-written"),
    "half.tar.gz": (WHOLE[: len(WHOLE) // 2], "damaged or half-written"),
    "half.tar": (gzip.decompress(WHOLE)[:4000], "damaged or half-written"),
    "junk.yaml": (b"a: b\n", "junk.yaml is no capture"),
    "mine.yaml": (b"schema: dflash-doctor/baseline/1\nname: x\n", "is a baseline, no capture"),
    "load.yaml": (b"nonsense: [\n", "nothing in this capture can be read .*not YAML"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_capture_is_refused(place, name):
    data, words = FILES[name]
    (place / name).write_bytes(data)
    assert_says(refused("diagnose", name), words)
    assert os.listdir(place) == [name]


def assert_says(sentence, words):
    assert re.search(words, sentence), sentence


TARGETS = {
    "./nonexistent": "nonexistent: no such file or folder",
    "nonexistent.log": "nonexistent.log: no such file or folder",
    "": "the target is empty",
    "two words": "'two words' is not a target: write a host",
    "gpu7:99999": "'99999' is not a port",
    "http://": "http:// names no host",
    "http://[::1": "is not an address",
    "ftp://gpu7/x": "ftp:// addresses are not known",
    "/dev/null": "is a device",
    "\x1b[31mred\x1b[0m\n.log": r"^red\s*\.log: no such file",
    "[bold]x[/bold].log": r"^\[bold\]x\[/bold\]\.log: no such file",
}


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_that_is_none_is_refused(target):
    assert_says(refused("diagnose", target), TARGETS[target])


def test_a_folder_that_is_no_capture_is_refused(place):
    (place / "empty").mkdir()
    assert_says(refused("diagnose", "./empty"), "empty holds no file that can be read")
    (place / "photos").mkdir()
    (place / "photos" / "a.jpg").write_bytes(b"\xff\xd8\0\0")
    assert_says(refused("diagnose", "./photos"), "no known file among a.jpg")
    (place / "up" / "case").mkdir(parents=True)
    assert_says(refused("diagnose", "./up"), "it holds the folder case: name that")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_one_has_no_right_to_read_is_refused(place):
    for path in (place / "secret.log", place / "secret"):
        path.mkdir() if path.suffix == "" else path.write_bytes(LOG)
        path.chmod(0)
        assert_says(refused("diagnose", f"./{path.name}"), "cannot be read: Permission denied")
        path.chmod(0o700)


BASELINES = {
    "junk.yaml": (b"a: b\n", "is not a baseline: it has no line `schema: dflash-doctor/baseline/1`"),
    "list.yaml": (b"- 1\n", "is not a baseline"),
    "none.yaml": (b"", "is not a baseline"),
    "broken.yaml": (b"a: [b\n  : :\n", r"is not YAML: .* \(line 2\)"),
    "latin.yaml": (b"a: \xe4\xf6\n", "is no UTF-8 text"),
    "later.yaml": (b"schema: dflash-doctor/baseline/2\n", "of schema dflash-doctor/baseline/2; this version reads"),
    "part.yaml": (b"schema: dflash-doctor/baseline/1\nname: x\n", "is not a whole baseline: passport"),
    "empty.log": (b"", "empty.log is empty"),
}


@pytest.mark.parametrize("name", BASELINES)
def test_a_file_that_is_no_baseline_is_refused(place, name):
    data, words = BASELINES[name]
    (place / name).write_bytes(data)
    (place / "server.log").write_bytes(LOG)
    assert_says(refused("diagnose", "server.log", "--baseline", name), words)


def test_a_baseline_that_is_not_there_is_said_before_a_host_is_asked():
    # no such host either: its own sentence would come if it were asked
    assert_says(refused("diagnose", "no-such-host.invalid", "-b", "missing"), "no baseline named 'missing'")
    assert_says(refused("diagnose", "no-such-host.invalid", "-b", "./missing.yaml"), "cannot be read: No such file")
    assert_says(refused("diagnose", "no-such-host.invalid", "-b", "qwen3.6-27b"), f"near it: .*{SHIPPED}")


def test_words_that_are_not_known_are_refused_with_those_that_are(place):
    (place / "server.log").write_bytes(LOG)
    assert_says(refused("diagnose", "server.log", "--format", "yml"), "one of terminal, json, markdown")
    assert_says(
        refused("diagnose", "server.log", "--preset", "huge"), "--preset huge is not known; it is one of .*quick"
    )
    assert_says(refused("diagnose", "server.log", "-b", "x", "--no-baseline"), "exclude each other")
    assert_says(refused("explain", "spec.nothing"), "no cause named 'spec.nothing'; near it: spec.not_active")
    assert_says(refused("demo", "other"), "no demo 'other'; there are a6000-dflash")


def test_a_stored_capture_is_not_put_under_load(place):
    (place / "server.log").write_bytes(LOG)
    assert_says(refused("diagnose", "server.log", "--load"), "a stored capture cannot be put under load")


@pytest.mark.parametrize("flag", ["--save", "-o"])
def test_a_place_in_use_is_said_before_a_host_is_asked(place, flag):
    (place / "case.tar.gz").write_bytes(WHOLE)
    command = "diagnose" if flag == "--save" else "collect"
    assert_says(refused(command, "no-such-host.invalid", flag, "case.tar.gz"), "case.tar.gz is there already")
    assert_says(refused(command, "no-such-host.invalid", flag, "case.tar.gz/x"), "case.tar.gz is no folder")
    assert (place / "case.tar.gz").read_bytes() == WHOLE


def test_a_collection_that_goes_nowhere_is_refused():
    assert_says(refused("collect", "no-such-host.invalid"), "say where the capture goes: -o DIR or -o FILE.tar.gz")


def test_keys_that_cannot_be_read_are_said(monkeypatch):
    monkeypatch.delenv("NO_KEY", raising=False)
    assert_says(refused("diagnose", "http://127.0.0.1:1", "--api-key-env", "NO_KEY"), "NO_KEY .* is not set")
    assert_says(refused("diagnose", "http://127.0.0.1:1", "--api-key-file", "nix"), "cannot be read from nix: No such")


# -- what is readable, in whatever dress ------------------------------------------------------------------------------


def read_by(*argv, **more):
    done = run("diagnose", *argv, **more)
    assert done.stderr == "" and "vLLM 0.32.0" in done.stdout, done.output
    return done


@pytest.mark.parametrize("dress", ["server.log", "old.log.gz", "wide.log", "case.tar.gz", "bare.tar", "huge.log"])
def test_a_log_in_any_dress_is_read(place, dress):
    dressed = {
        "server.log": LOG,
        "old.log.gz": gzip.compress(LOG),
        "wide.log": LOG.decode().encode("utf-16"),
        "case.tar.gz": WHOLE,
        "bare.tar": gzip.decompress(WHOLE),
        "huge.log": LOG + b"INFO " + b"x" * 3_000_000 + b"\n",
    }
    (place / dress).write_bytes(dressed[dress])
    assert read_by(dress).exit_code == 0


def test_a_log_from_a_pipe_is_read():
    assert read_by("-", input=LOG).exit_code == 0
    assert_says(refused("diagnose", "-", input=b""), "stdin is empty")


def test_a_name_full_of_control_characters_is_shown_and_does_nothing(place):
    evil = place / "gpu\x1b[31m7\n[bold]\u202e"
    evil.mkdir()
    (evil / "server.log").write_bytes(LOG)
    for form in ("terminal", "markdown", "json"):
        done = run("diagnose", f"./{evil.name}", "--format", form)
        assert done.exit_code == 0 and not {"\x1b", "\u202e"} & set(done.stdout if form != "json" else "")
    assert "\x1b" not in run("diagnose", f"./{evil.name}", "--save", evil / "x").output


def test_numbers_of_a_person_alone_are_not_called_healthy(place):
    (place / "load.yaml").write_text("- {workload: chat, concurrency: 1, output_tok_s: 17.7}\n")
    assert run("diagnose", "load.yaml").exit_code == 2
    against = run("diagnose", "load.yaml", "--baseline", SHIPPED)
    assert against.exit_code == 1 and against.stdout.startswith("regressed: 17.7 tok/s, was 73.5 (4.2x slower)")


def test_a_capture_may_be_the_baseline(place):
    (place / "server.log").write_bytes(LOG)
    (place / "case.tar.gz").write_bytes(WHOLE)
    done = run("diagnose", "server.log", "--baseline", "case.tar.gz")
    assert done.exit_code == 0 and "against case.tar.gz: vLLM 0.32.0 (named by --baseline)" in done.stdout


def test_what_is_said_beside_the_report_is_on_stderr(place):
    (place / "server.log").write_bytes(LOG)
    done = run("diagnose", "server.log", "--save", "kept", "--store", "nowhere", "-f", "json")
    assert done.stdout.startswith("{") and done.stdout.endswith("}\n")
    assert (
        done.stderr
        == "note: there is no folder nowhere: only the shipped baselines are known\nthe capture is in kept\n"
    )
    assert sorted(os.listdir(place)) == ["kept", "server.log"]
    assert sorted(os.listdir(place / "kept")) == ["capture.yaml", "server.log"]
