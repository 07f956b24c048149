"""Baselines as people keep them: captured, found again by the rule, listed, compared, replaced, removed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.command_line import refused, run

CAPTURES = Path(__file__).parent / "captures"
LOG = Path(__file__).parent / "logs" / "v032_base_compiled.log"
SHIPPED = Path(__file__).parent.parent / "baselines"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder of its own, and no baselines of the person who runs the tests."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def case(place, name, host=None, at="2026-05-01T10:00:00Z", **cards):
    """A capture of a served log, of a host if one is named."""
    folder = place / name
    folder.mkdir()
    shutil.copy(LOG, folder / "server.log")
    if host:
        (folder / "capture.yaml").write_text(yaml.safe_dump({"host": host, "taken_at": at}))
    return f"./{name}"


def keep(target, name, *more):
    done = run("baseline", "capture", target, "--name", name, *more)
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    return done.stderr


def against(target, *more):
    """The line of the report that says which baseline was taken and why."""
    paragraph = run("diagnose", target, *more).stdout.split("\n\n")[0]
    about = " ".join(line.strip() for line in paragraph.splitlines() if line.startswith("  "))
    return re.search(r"(against|no baseline) .*", about)[0]


def test_the_newest_baseline_of_the_very_host_is_taken_and_it_is_said(place):
    keep(case(place, "may", "gpu7", "2026-05-01T10:00:00Z"), "mine.may")
    keep(case(place, "june", "gpu7", "2026-06-01T10:00:00Z"), "mine.june")
    keep(case(place, "other", "gpu8", "2026-07-01T10:00:00Z"), "other")
    now = case(place, "now", "gpu7", "2026-08-01T10:00:00Z")
    assert against(now).startswith("against mine.june: vLLM 0.32.0 (the newest baseline captured from this host)")
    # the user, and the port that everybody has, make no other machine
    assert against(case(place, "me", "me@gpu7:22")).startswith("against mine.june")
    assert against(case(place, "ninth", "gpu9")).startswith("no baseline (no stored baseline is of this host")
    assert against(now, "--no-baseline").startswith("no baseline (--no-baseline)")
    assert against(now, "--baseline", "other").startswith("against other: vLLM 0.32.0 (named by --baseline)")


def test_a_file_is_no_host_so_another_file_of_that_name_is_not_held_against_it(place):
    shutil.copy(LOG, place / "server.log")
    keep("server.log", "mine")
    assert against("server.log").startswith("no baseline")
    assert "host" not in yaml.safe_load(run("baseline", "show", "mine").stdout)["passport"]


def test_what_is_held_against_its_own_stored_baseline_is_healthy(place):
    for capture in sorted(CAPTURES.glob("*base*")):
        keep(capture, capture.name)
        done = run("diagnose", capture, "--baseline", capture.name)
        assert done.exit_code == 0 and done.stdout.startswith("healthy"), done.output


A6000 = "GPU 0: NVIDIA RTX A6000 (UUID: GPU-1)\nGPU 1: NVIDIA RTX A6000 (UUID: GPU-2)\n"


def published(place, name, cards=2):
    """A capture whose model and cards are those of a shipped profile, with no speed to speak of."""
    folder = place / name
    folder.mkdir()
    (folder / "cmdline").write_text("python -m sglang.launch_server --model-path /data/Qwen3.6-27B --tp-size 2\n")
    rows = "".join(f"{i}, NVIDIA RTX A6000, 1800 MHz\n" for i in range(cards))
    (folder / "nvidia-smi.csv").write_text(f"index, name, clocks.current.sm [MHz]\n{rows}")
    return f"./{name}"


def test_a_shipped_profile_of_the_same_model_and_cards_is_taken(place):
    said = against(published(place, "two"))
    assert said.startswith("against qwen3.6-27b.a6000x2.sglang-mtp: SGLang, published single values")
    assert "(a shipped profile of the same model, GPU and count)" in said
    assert against(published(place, "four", cards=4)).startswith("no baseline (no stored baseline is of this host")


def test_where_several_shipped_profiles_fit_none_is_taken_and_all_are_named(place, monkeypatch):
    many = place / "shipped"
    many.mkdir()
    text = (SHIPPED / "qwen3.6-27b.a6000x2.sglang-mtp.yaml").read_text()
    for name in ("one", "two"):
        (many / f"{name}.yaml").write_text(text)
    monkeypatch.setattr("dflash_doctor.paths.baselines", lambda *parts: many.joinpath(*parts))
    said = against(published(place, "case"))
    assert said.startswith("no baseline (several shipped profiles fit equally: one, two; name one with --baseline)")


def test_a_name_in_use_is_kept_unless_a_reason_is_given(place):
    target = case(place, "may", "gpu7")
    keep(target, "mine")
    for flags in ((), ("--replace",), ("--replace", "--reason", " ")):
        assert "exists; overwrite it with --replace --reason" in refused(
            "baseline", "capture", target, "--name", "mine", *flags
        )
    keep(target, "mine", "--replace", "--reason", "new driver")
    assert yaml.safe_load(run("baseline", "show", "mine").stdout)["passport"]["replaced"][0]["why"] == "new driver"


def test_names_that_cannot_be_and_servers_that_do_not_serve_are_refused(place):
    assert "cannot be a baseline's name" in refused("baseline", "capture", case(place, "a"), "--name", "../x")
    failed = next(CAPTURES.glob("*fail*"))
    assert "does not serve" in refused("baseline", "capture", failed, "--name", "x")
    (place / "cards").mkdir()
    (place / "cards" / "nvidia-smi.txt").write_text(A6000)
    (place / "cards" / "nvidia-smi.csv").write_text("index, name, temperature.gpu\n0, NVIDIA RTX A6000, 40\n")
    assert "gives nothing to bless" in refused("baseline", "capture", "./cards", "--name", "x")
    assert run("baseline", "list").stdout.startswith("shipped")


def test_the_list_shows_ones_own_first_and_fits_a_terminal(place):
    keep(case(place, "may", "gpu7"), "mine")
    listed = run("baseline", "list").stdout.splitlines()
    assert listed[:2] == ["your own:", "  mine"] and listed[2].split(" · ")[0].strip() == "gpu7 2026-05-01"
    assert "shipped, of published figures:" in listed and "  qwen3.6-27b.a6000x2.sglang-mtp" in listed
    assert max(map(len, listed)) <= 80


def test_a_file_in_the_store_that_is_no_baseline_is_said_and_hides_no_other(place):
    store = place / "store"
    store.mkdir()
    (store / "odd.yaml").write_text("a: b\n")
    done = run("baseline", "list", "--store", store)
    assert done.exit_code == 0 and "qwen3.6-27b.a6000x2.sglang-mtp" in done.stdout
    assert (
        done.stderr
        == f"left out: {store}/odd.yaml is not a baseline: it has no line `schema: dflash-doctor/baseline/1`\n"
    )


def test_two_are_compared_as_a_and_b(place):
    keep(case(place, "may", "gpu7"), "mine")
    done = run("baseline", "diff", "mine", "qwen3.6-27b.a6000x2.sglang-mtp")
    head, *rows = done.stdout.splitlines()
    assert done.exit_code == 0 and head.split()[-2:] == ["A", "B"]
    assert any(row.startswith("spec.method ") and row.split()[-1] == "mtp" for row in rows)
    assert "no difference" in run("baseline", "diff", "./may", "./may").stdout
    assert "no baseline named 'nix'" in refused("baseline", "diff", "nix", "mine")


def test_only_ones_own_are_removed_and_not_by_accident(place):
    keep(case(place, "may", "gpu7"), "mine")
    assert "say --yes" in refused("baseline", "rm", "mine")
    for flags in ((), ("--yes",)):
        assert "is shipped with dflash-doctor and stays" in refused(
            "baseline", "rm", "qwen3.6-27b.a6000x2.sglang-mtp", *flags
        )
    assert run("baseline", "rm", "mine", "--yes").exit_code == 0
    assert "no baseline named 'mine'" in refused("baseline", "show", "mine")


def test_a_baseline_without_any_speed_says_what_it_is_good_for(place):
    said = keep(published(place, "case"), "mine")
    assert "no speed was measured, so only settings and log lines can be held against it" in said
    assert "tok/s at 1 by its own log; kept as other in " in keep(case(place, "may", "gpu7"), "other")
