"""The HTML report in a real browser; skipped where there is no Chromium (Debian: apt-get install chromium)."""

from __future__ import annotations

import html as entities
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from dflash_doctor.model import Interval
from dflash_doctor.report import html
from tests.report_stories import a6000, hostile

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr",
    "--virtual-time-budget=3000",
)  # fmt: skip
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
OWNED = "</title></style></svg><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def opened(path: Path, *flags: str) -> tuple[str, str]:
    """What the browser made of a file, and what its console says."""
    profile = f"--user-data-dir={path.parent / 'profile'}"
    command = [str(CHROMIUM), *FLAGS, profile, *flags, "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


def pictured():
    """The story with pictures: a log of six intervals."""
    log = tuple(Interval(n, 10.0 * n, generation_tok_s=17.0 + n, accept_length=1.17) for n in range(6))
    d = a6000()
    return replace(d, comparison=replace(d.comparison, now=replace(d.now, intervals=log)))


def test_a_host_that_writes_script_is_read_and_not_run(tmp_path):
    d = hostile()
    told = (replace(d.findings[0], summary=OWNED, evidence=(replace(d.findings[0].evidence[0], text=OWNED),)),)
    page = tmp_path / "page.html"
    page.write_text(html.render(replace(d, target=OWNED, findings=told)), encoding="utf-8")
    dom, console = opened(page)
    title = re.search("<title>(.*?)</title>", dom, re.S)[1]
    assert title.startswith("&lt;/title&gt;") and title.endswith(": regressed")
    assert "<script" not in dom and "<img" not in dom
    assert console == ""


def test_its_own_policy_leaves_the_page_its_style_and_its_pictures(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(html.render(pictured()), encoding="utf-8")
    dom, console = opened(page)
    assert console == "", "nothing was refused"
    assert dom.count('<svg role="img"') == 2


@pytest.mark.parametrize(("story", "width"), [(pictured, 360), (hostile, 360), (pictured, 1280)])
def test_no_page_is_wider_than_its_screen(tmp_path, story, width):
    # the frame measures for us: the page itself runs nothing, so its policy is left out here
    bare = re.sub(r"<meta http-equiv[^>]*>", "", html.render(story()))
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<meta charset="utf-8"><iframe width="{width}" height="800" srcdoc="{entities.escape(bare)}"></iframe><script>'
        "onload = () => { const page = document.querySelector('iframe').contentDocument.documentElement;"
        " document.title = page.scrollWidth }</script>",
        encoding="utf-8",
    )
    dom, _ = opened(frame)
    assert int(re.search(r"<title>(\d+)</title>", dom)[1]) <= width
