"""The report as one HTML page that needs nothing else: no script, no address, no style outside its one style element.

It opens from a mail attachment, offline and under a strict Content-Security-Policy, which it also states itself. What a
host wrote is escaped by the template; pictures are static SVG inside the page, each with its content as alt text.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.util import find_spec
from typing import TYPE_CHECKING

from dflash_doctor import __version__
from dflash_doctor.model import Diagnosis, Refused
from dflash_doctor.paths import PACKAGE

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = PACKAGE / "report" / "html"
NEEDS = ("jinja2", "altair", "vl_convert")


def ready() -> None:
    """Refused, with what to install, where a part that HTML needs is missing; asked before a host is troubled."""
    if missing := [name for name in NEEDS if find_spec(name) is None]:
        lacks = ", ".join(missing)
        raise Refused(f"HTML needs {lacks}, not installed here: python -m pip install 'dflash-doctor[html]'")


def render(d: Diagnosis) -> str:
    """The whole page. Raises Refused where the extra `html` is not installed."""
    ready()
    from dflash_doctor.report.html import page

    style = (HERE / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return _environment().get_template("page.html.j2").render(
        page.content(d), style=style, style_hash=digest, version=__version__
    )  # fmt: skip


def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True,
    )  # fmt: skip
