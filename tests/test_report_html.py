"""The page a person opens in a browser: one file, no script, host text as text, every picture told in words."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from report_stories import HOSTILE, a6000, healthy, hostile, inconclusive, not_comparable

from dflash_doctor.model import (
    Bisection,
    Carry,
    Comparison,
    Diagnosis,
    Finding,
    GpuReading,
    Interval,
    KnownIssue,
    Lead,
    Refused,
    Snapshot,
    Suspect,
    Unexplained,
)
from dflash_doctor.report import html
from dflash_doctor.report.html import series
from tests.command_line import refused, run

VOID = {"meta", "br", "link", "img", "hr", "rect", "line"}


class Read(HTMLParser):
    """The page as a browser takes it: elements with attributes, and the text a person reads."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.words, self._open = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data):
        if "style" not in self._open:
            cells = " " if self._open and self._open[-1] in ("th", "td") else ""
            self.words.append(cells + data + cells)

    @property
    def text(self):
        return " ".join("".join(self.words).split())

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


def page(d):
    return Read(html.render(d))


def courses():
    """Two sides whose logs hold a minute of intervals, and a GPU that drops its clock under load."""

    def log(speed, kept, positions):
        return tuple(
            Interval(n, 100.0 + 10 * n, generation_tok_s=speed + n, accept_length=kept, per_position=positions)
            for n in range(6)
        )

    readings = tuple(
        GpuReading(0, float(t), t > 2, {"name": "NVIDIA GB10", "clocks.sm": 2223 if t < 3 else 858,
                                        "clocks.max.sm": 3003, "clocks_event_reasons.active": "0x0000000000000020"})
        for t in range(6)
    )  # fmt: skip
    base = a6000()
    now = replace(base.now, intervals=log(12.0, 1.17, (0.12, 0.03)), readings=readings, links={(0, 1): "SYS"})
    was = replace(base.comparison.was, intervals=log(73.0, 3.2, (0.9, 0.8)))
    return replace(base, comparison=replace(base.comparison, now=now, was=was))


@pytest.mark.parametrize("story", [a6000, healthy, hostile, inconclusive, not_comparable, courses])
def test_a_page_asks_for_nothing_and_runs_nothing(story):
    text = html.render(story())
    read = Read(text)
    assert not {"script", "link", "img", "iframe", "object", "form"} & {tag for tag, _ in read.elements}
    for tag, attrs in read.elements:
        assert not [a for a in attrs if a.startswith("on") or a in ("style", "src", "srcset", "xlink:href")], tag
    assert "url(" not in text and "@import" not in text


def test_its_policy_allows_its_own_style_and_nothing_else():
    text = html.render(a6000())
    policy = next(m["content"] for m in page(a6000()).all("meta") if m.get("http-equiv"))
    style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_what_a_host_wrote_stays_text():
    text = html.render(hostile())
    assert "<script" not in text and "&lt;script&gt;alert(1)" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert "\\u202egnp.exe" in text, "what does not print is shown as its escape"


def test_a_host_cannot_set_an_attribute_or_a_class():
    nasty = '"><b onmouseover=alert(1) x="'
    d = replace(hostile(), target=nasty, findings=(Finding("spec.not_active", nasty, 0.9, "critical"),))
    now = replace(d.now, engine=nasty, links={(0, 1): nasty}, readings=(GpuReading(0, 0.0, True, {"name": nasty}),))
    assert not page(replace(d, comparison=replace(d.comparison, now=now))).all("b")


def test_odd_unicode_can_be_written_as_utf_8():
    d = replace(a6000(), notes=("\ud800 lone, \U0010ffff last, z\u0301\u0301\u0301\u0301\u0301\u0301\u0301, \ufeff",))
    assert "\\ud800 lone" in html.render(d).encode("utf-8").decode("utf-8")


def test_the_verdict_stands_first_and_is_the_title_of_the_tab():
    read = page(a6000())
    assert read.text.startswith("gpu-a: regressed regressed 17.7 tok/s, was 73.5 (4.2x slower)")


def test_the_waterfall_is_a_table_that_can_be_read_aloud():
    text = page(a6000()).text
    assert "step drawn speed after it factor put down to tuned 73.5 tok/s tokens per step 26.9 0.37x cause 1" in text


def test_every_picture_says_in_words_what_it_shows():
    pictures = [a for a in page(courses()).all("svg") if a.get("role") == "img"]
    said = [a["aria-label"] for a in pictures]
    assert said == [
        "Output speed over time. now: 12.0 to 17.0 tok/s; tuned: 73.0 to 78.0.",
        "Tokens kept per pass over time. now: 1.17 tokens per pass; tuned: 3.20.",
        "Acceptance by draft position: share of drafts accepted up to each position. now: 12%, 3.0%; tuned: 90%, 80%.",
        "SM clock of each GPU. GPU 0 858 to 2,223 MHz; its maximum 3,003.",
    ]
    assert "SM clock" in page(courses()).text and "858 of 3,003 MHz" in page(courses()).text
    assert "sw thermal slowdown" in page(courses()).text


def test_a_tuned_side_without_a_log_is_drawn_as_a_level():
    d = courses()
    d = replace(d, comparison=replace(d.comparison, was=a6000().comparison.was))
    said = [a["aria-label"] for a in page(d).all("svg") if a.get("role") == "img"]
    assert "Tokens kept per pass over time. now: 1.17 tokens per pass; tuned: 3.20." in said


def test_numbers_that_are_none_do_not_break_a_picture():
    bad = (float("nan"), float("inf"), -1.0, 1e300)
    log = tuple(Interval(n, v, generation_tok_s=v, accept_length=v) for n, v in enumerate(bad))
    readings = tuple(GpuReading(n, v, True, {"clocks.sm": v, "clocks.max.sm": v}) for n, v in enumerate(bad))
    d = Diagnosis("gpu7", "suspect", Comparison(Snapshot("gpu7", "vllm", intervals=log, readings=readings)))
    assert not [a for a in page(d).all("svg") if a.get("role") == "img"]


def test_a_day_of_intervals_is_drawn_with_few_points():
    log = tuple(Interval(n, 10.0 * n, generation_tok_s=float(n % 7)) for n in range(8640))
    points = series.over_time(log, series.speed)
    assert len(points) == series.MOST and points[-1][0] > 86_000


def test_where_no_cause_explains_it_is_told_what_was_looked_at():
    lead = Lead("mem.fraction: 0.85 -> 0.9", 0.4)
    d = replace(
        a6000(),
        unexplained=(Unexplained("step time", 0.66, (Suspect("gpu.power_cap", None, "power.limit"),)),),
        leads=(lead,), bisection=Bisection((lead,), 1.6),
        carry=(Carry("spec.depth", "drafted tokens", 3, 15, "--speculative-config …"),),
    )  # fmt: skip
    text = page(d).text
    assert "Not explained: step time 0.66x" in text and "gpu.power_cap (power.limit)" in text
    assert "mem.fraction: 0.85 -> 0.9" in text and "put back the first of these and measure" in text
    assert "To carry over from SGLang 0.5.10" in text and "3 -> 15" in text


def test_a_link_is_one_only_where_it_is_https():
    known = [
        KnownIssue("x", "slow", "2x", link, "upgrade") for link in ("javascript:alert(1)", "https://example.org/1")
    ]
    read = page(replace(a6000(), findings=(Finding("spec.not_active", "x", 0.9, known=tuple(known)),)))
    assert [a["href"] for a in read.all("a")] == ["https://example.org/1"]


def test_every_gap_and_every_source_is_told():
    text = page(a6000()).text
    assert "clocks, power and neighbours were not looked at" in text and "not in this capture" in text
    assert "Read: capture.yaml, cmdline, environ, load.yaml, packages.txt, server.log." in text


def test_hostile_text_at_its_longest_stays_under_a_megabyte():
    d = hostile()
    flood = replace(d.findings[0], evidence=d.findings[0].evidence * 500, summary=HOSTILE * 50)
    fat = replace(d, comparison=replace(d.comparison, drifts=d.comparison.drifts * 2000), findings=(flood,) * 20)
    assert len(html.render(fat).encode()) < 1 << 20


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(html, "NEEDS", ("jinja2", "no_such_module"))
    with pytest.raises(Refused, match=r"HTML needs no_such_module.*pip install 'dflash-doctor\[html\]'"):
        html.ready()
    assert "pip install" in refused("diagnose", "./examples/a6000-dflash-4x", "--format", "html")


def test_the_page_goes_to_stdout_or_to_a_file_beside_the_usual_report(tmp_path):
    told = ("diagnose", "./examples/a6000-dflash-4x", "--baseline", "qwen3.6-27b.a6000x2.sglang-mtp")
    done = run(*told, "--html", str(tmp_path / "report.html"))
    assert done.stdout.startswith("regressed: 17.7 tok/s") and done.exit_code == 1
    assert "the page is in" in done.stderr
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == run(*told, "-f", "html").stdout
    assert "its folder is not there" in refused(*told, "--html", str(tmp_path / "no" / "report.html"))
