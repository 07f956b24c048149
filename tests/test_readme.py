"""What the README shows is what the program says.

After a wanted change of the report: python tests/test_readme.py
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
SHOWN = re.compile(r"```\n\$ dflash-doctor (?P<words>.*)\n\n(?P<report>(?:.*\n)*?)```\n")


def said(words):
    """The report of a command, as far as the README shows it: to the line that says where more is."""
    command = [sys.executable, "-m", "dflash_doctor", *shlex.split(words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    return re.match(r"(?:.*\n)*?more: .*\n", done.stdout)[0]


def test_the_report_in_the_readme_is_that_of_the_command_above_it():
    shown = SHOWN.search(README.read_text(encoding="utf-8"))
    assert shown["report"] == said(shown["words"])


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    shown = SHOWN.search(text)
    begin, end = shown.span("report")
    README.write_text(text[:begin] + said(shown["words"]) + text[end:], encoding="utf-8")
