"""What a person reads. After a wanted change of the golden report: python tests/test_report_terminal.py"""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from report_stories import a6000, healthy, hostile, inconclusive, not_comparable
from rich.cells import cell_len
from rich.console import Console

from dflash_doctor.model import Comparison, Delta, Diagnosis, Evidence, Finding, Part, Slowdown, Snapshot
from dflash_doctor.report import terminal, words

GOLDEN = Path(__file__).parent / "golden" / "a6000.txt"
ANSI = re.compile(r"\x1b\[[\d;]*m")


def first_line(d):
    return terminal.render(d).splitlines()[0]


def test_the_a6000_story_reads_as_written_down():
    assert terminal.render(a6000()) == GOLDEN.read_text(encoding="utf-8")


def test_the_first_line_is_the_verdict_with_its_number():
    assert first_line(a6000()) == "regressed: 17.7 tok/s, was 73.5 (4.2x slower)"


def test_a_healthy_host_gets_few_lines_and_hears_how_much_was_looked_at():
    text = terminal.render(healthy())
    assert first_line(healthy()) == "healthy: 73.2 tok/s, was 73.5"
    assert "12 metrics the same" in text and "2 gaps" in text
    assert len(text.splitlines()) <= 12


def test_a_healthy_host_still_hears_what_could_not_be_seen():
    assert "driver 535 does not report clock reasons" in terminal.render(healthy())


def test_a_healthy_host_without_baseline_is_not_called_fast():
    d = Diagnosis("gpu7", "healthy", Comparison(Snapshot("gpu7", "vllm")))
    assert "no baseline, so its speed was not judged" in first_line(d)


def test_no_percent_stands_beside_same():
    assert "%" not in terminal.render(healthy())


def test_a_faster_host_is_told_so():
    base = healthy()
    deltas = (replace(base.comparison.deltas[0], now=95.0, factor=1.293, verdict="better"),)
    slow = Slowdown("output_tok_s", 73.5, 95.0, 1.293, "chat", 1.0)
    d = replace(base, slowdown=slow, comparison=replace(base.comparison, deltas=deltas))
    assert first_line(d) == "healthy: 95.0 tok/s, was 73.5 (29% faster)"


def test_not_comparable_says_why_first():
    assert first_line(not_comparable()).startswith("not comparable: the load is not the baseline's")


def test_inconclusive_says_what_was_missing():
    assert "no speed of this server was measured" in " ".join(terminal.render(inconclusive()).splitlines()[:2])


def test_a_failing_server_is_named_in_the_first_line():
    found = (Finding("server.failing", "the server did not come up", 0.9, "critical"),)
    d = Diagnosis("gpu7", "suspect", Comparison(Snapshot("gpu7")), findings=found)
    assert first_line(d) == "suspect: the server does not serve as it should"


def test_suspicion_without_a_measurement_says_so():
    d = replace(a6000(), verdict="suspect", slowdown=None, comparison=Comparison(Snapshot("gpu-a")))
    assert first_line(d) == "suspect: 2 causes found, a slow-down was not measured"


def test_a_time_that_grew_is_a_bar_that_grows():
    slow = Slowdown(
        "tpot_ms", 10.0, 40.0, 0.25, "chat", 1.0, parts=(Part("tokens per step", 0.5), Part("step time", 0.5))
    )
    rows = [x for x in terminal.render(replace(a6000(), slowdown=slow)).splitlines() if "█" in x]
    solid = [row.count("█") for row in rows]
    assert solid == sorted(solid) and solid[0] < solid[-1]
    assert first_line(replace(a6000(), slowdown=slow)).startswith("regressed: time per output token 40.0 ms, was 10.0")


def test_the_receipt_says_what_the_split_rests_on():
    text = terminal.render(a6000())
    assert "0.24x = tokens per step 0.37x · step time 0.66x" in text
    assert "tokens per step: 1.17 now, 3.20 in the baseline" in text


def test_published_values_are_called_so():
    d = a6000()
    d = replace(d, comparison=replace(d.comparison, was=replace(d.comparison.was, published=True)))
    assert "published single values" in terminal.render(d)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
@pytest.mark.parametrize("story", [a6000, healthy, not_comparable, inconclusive, hostile])
def test_only_commands_are_wider_than_the_terminal(story, width):
    for line in terminal.render(story(), width=width).splitlines():
        text = line.strip().removeprefix("try").removeprefix("more:").strip()
        assert cell_len(line) <= width or words.is_command(text), line


def test_no_line_ends_in_spaces():
    assert not [x for x in terminal.render(a6000()).splitlines() if x != x.rstrip()]


def test_commands_stand_whole_on_their_line():
    command = next(s for s in a6000().findings[0].next_steps if s.startswith("vllm serve"))
    assert command in [x.strip() for x in terminal.render(a6000(), width=60).splitlines()]


@pytest.mark.parametrize(
    ("step", "typed"),
    [
        ("pip install 'flash-attn==2.8.3'", True),
        ("nvidia-smi -rgc; nvidia-smi -rac  # give the clocks back", True),
        ("NCCL_DEBUG=INFO vllm serve m", True),
        ("unset NCCL_P2P_DISABLE and start again", False),
        ("try speculation by mtp as tuned", False),
        ("start without --enforce-eager", False),
    ],
)
def test_a_command_is_told_from_a_sentence(step, typed):
    assert words.is_command(step) is typed


def test_weak_suspicions_are_to_check_and_come_after_the_findings():
    text = terminal.render(a6000())
    assert "attention.backend_changed  to check (30%)" in text
    assert text.index("Also seen") > text.index("2. spec.method_changed")


def test_colour_adds_nothing_but_colour():
    assert ANSI.sub("", terminal.render(a6000(), color=True)) == terminal.render(a6000())
    assert "\x1b" not in terminal.render(a6000())


def test_what_a_host_writes_cannot_restyle_the_terminal_or_be_read_as_markup():
    text = terminal.render(hostile(), color=True)
    assert "\x1b]" not in text and "\x1b[2J" not in text and "\x9b" not in text and "\x00" not in text
    assert "\u202e" not in text and r"\u202e" in text
    assert "[red]cheap[/red]" in ANSI.sub("", text).replace("\n", "")
    assert ":boom:" in text


def test_every_line_of_evidence_says_where_it_stands():
    assert "server.log:24" in terminal.render(a6000())


def test_evidence_shown_once_is_only_named_the_second_time():
    text = terminal.render(a6000())
    assert text.count("Mean acceptance length") == 1 and "server.log:24 as above" in text


def test_long_lists_are_cut_with_a_count():
    d = a6000()
    lines = tuple(Evidence("server.log", f"line {i}", i) for i in range(9))
    d = replace(d, findings=(replace(d.findings[0], evidence=lines),))
    assert "and 3 more" in terminal.render(d) and "line 8" not in terminal.render(d)
    assert "and 1 more (--format json has all)" in terminal.render(a6000())


def test_a_terminal_that_knows_only_ascii_still_gets_its_report():
    text = terminal.render(a6000(), encoding="ascii")
    assert text.isascii() and "####" in text
    host = replace(healthy(), target="gpu-ü")
    assert r"gpu-\xfc" in terminal.render(host, encoding="ascii")


def test_no_color_is_honoured_on_a_console(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    out = StringIO()
    terminal.show(a6000(), Console(file=out, force_terminal=True, width=80))
    assert out.getvalue() == terminal.render(a6000())


def test_a_pipe_gets_eighty_columns_and_no_colour(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    out = StringIO()
    terminal.show(a6000(), Console(file=out))
    assert "\x1b" not in out.getvalue()


def test_a_number_of_each_prompt_is_told_apart_from_that_of_the_whole_round():
    each = Delta("output_tok_s", 72.0, 17.6, "worse", "battery", 1, paired=True)
    whole, alone = replace(each, was=66.5, now=17.0, paired=False), replace(each, metric="ttft_ms")
    names = [words.number_row(x, (each, whole, alone))[0] for x in (each, whole, alone)]
    assert names[0] == f"{names[1]} each" and "each" not in names[2]


def test_two_that_are_compared_are_called_a_and_b():
    out = StringIO()
    terminal.differences(a6000().comparison, Console(file=out, width=80))
    lines = out.getvalue().splitlines()
    assert lines[0].split()[-2:] == ["A", "B"] and "tuned" not in out.getvalue()
    assert lines[-1] == words.tally(replace(a6000(), gaps=()))


def test_numbers_that_are_none_do_not_break_a_report():
    nan, inf = float("nan"), float("inf")
    slow = Slowdown("output_tok_s", 0.0, nan, inf, None, None, nan, inf, (Part("a", nan), Part("b", 0.0)))
    text = terminal.render(replace(a6000(), slowdown=slow, findings=(replace(a6000().findings[0], confidence=nan),)))
    assert "no number" in text


def test_a_report_of_nothing_is_still_a_report():
    d = Diagnosis("", "inconclusive", Comparison(Snapshot("")))
    assert first_line(d) == "inconclusive: could not look well enough (too little was seen)"


if __name__ == "__main__":
    GOLDEN.write_text(terminal.render(a6000()), encoding="utf-8")
