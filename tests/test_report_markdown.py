"""What is pasted into an issue. After a wanted change of the golden report: python tests/test_report_markdown.py"""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from report_stories import HOSTILE, a6000, healthy, hostile, inconclusive, not_comparable

from dflash_doctor import __version__
from dflash_doctor.report import markdown
from dflash_doctor.report.hosttext import plain

GOLDEN = Path(__file__).parent / "golden" / "a6000.md"
READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def tokens(text):
    """Every token of the document, the ones within lines too."""
    return [t for block in READER.parse(text) for t in (block, *(block.children or ()))]


def test_the_a6000_story_reads_as_written_down():
    assert markdown.render(a6000()).replace(__version__, "VERSION") == GOLDEN.read_text(encoding="utf-8")


def test_the_first_line_is_the_verdict():
    assert markdown.render(a6000()).startswith("## regressed: 17.7 tok/s, was 73.5 (4.2x slower)\n")


def test_evidence_is_folded_away_in_a_fence():
    text = markdown.render(a6000())
    fences = [t.content for t in tokens(text) if t.type == "fence"]
    assert any("server.log:24" in f and "Mean acceptance length: 1.17" in f for f in fences)
    assert text.count("<details>") == text.count("</details>") == 4


def test_commands_can_be_copied():
    shells = [t.content for t in tokens(markdown.render(a6000())) if t.type == "fence" and t.info == "sh"]
    assert len(shells) == 1 and shells[0].startswith("vllm serve")


@pytest.mark.parametrize("story", [a6000, healthy, hostile, not_comparable, inconclusive])
def test_the_only_html_is_our_own(story):
    html = [t.content.strip() for t in tokens(markdown.render(story())) if t.type in ("html_block", "html_inline")]
    assert all(h == "</details>" or h.startswith("<details><summary>") for h in html)
    assert "<script" not in "".join(html)


def test_what_a_host_writes_is_neither_link_nor_emphasis_nor_heading():
    kinds = {t.type for t in tokens(markdown.render(hostile()))}
    assert not kinds & {"link_open", "em_open", "s_open", "image"}


def test_what_a_host_writes_stays_whole_inside_its_fence():
    fences = [t.content for t in tokens(markdown.render(hostile())) if t.type == "fence"]
    assert all(plain(HOSTILE) in f for f in fences)


@pytest.mark.parametrize(
    "nasty",
    [
        "`", "``", "` `` ```", "a`", "~~~~", "[x](http://e)", "![x](http://e)", "<img src=x>", "&lt;", "# x", "- x",
        "1. x", "> x", "***x***", "__x__", "_x_", "| a | b |", "http://evil", "@someone", "\\", "\\`", "a\n\n# b", "",
    ],
)  # fmt: skip
def test_nothing_in_prose_or_code_is_markup(nasty):
    line = plain(nasty)
    for text in (f"* {markdown.prose(line)}", markdown.code(line), markdown.fence([line])):
        kinds = {t.type for t in tokens(text)}
        assert kinds <= {
            "bullet_list_open", "list_item_open", "paragraph_open", "inline", "text", "text_special", "paragraph_close",
            "list_item_close", "bullet_list_close", "code_inline", "fence",
        }  # fmt: skip
    assert "@someone" not in markdown.prose("@someone")


def test_a_bar_in_a_cell_does_not_open_a_column():
    heads = [t for t in tokens(markdown.render(hostile())) if t.type in ("th_open", "td_open")]
    assert len(heads) == 4 * 5 + 3 * 2 + 4 * 2


def test_a_healthy_report_is_short():
    assert len(markdown.render(healthy()).splitlines()) < 16


if __name__ == "__main__":
    GOLDEN.write_text(markdown.render(a6000()).replace(__version__, "VERSION"), encoding="utf-8")
