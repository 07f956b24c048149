"""Where a check is told: stdout, files in other forms, GitHub's job summary, a webhook."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dflash_doctor.cli.streams import put, say, show
from dflash_doctor.formats.check import CheckFile
from dflash_doctor.model import Refused
from dflash_doctor.report import fleet, machines

if TYPE_CHECKING:
    from rich.console import Console

WEBHOOK_S = 10.0


@dataclass(frozen=True)
class Outlets:
    """Files by form, and the address of a webhook."""

    files: tuple[tuple[str, Path], ...] = ()
    webhook: str | None = None


def outlets(also: Sequence[str], webhook_env: str | None) -> Outlets:
    """What the user asked for; Refused where that cannot be."""
    files = []
    for word in also:
        form, equals, path = word.partition("=")
        if not equals or not path or form not in ("json", "junit", "github", "prometheus", "nagios"):
            raise Refused(
                f"--also {word} is not known; write it as junit=FILE (json, junit, github, prometheus, nagios)"
            )
        files.append((form, Path(path)))
    webhook = None
    if webhook_env:
        webhook = os.environ.get(webhook_env)
        if not webhook:
            raise Refused(f"the variable {webhook_env} that should hold the webhook's address is not set")
    return Outlets(tuple(files), webhook)


def tell(found: CheckFile, form: str, ways: Outlets, *, quiet: bool) -> None:
    """Everywhere that was asked for. What cannot be told is said on stderr; the status is that of the hosts."""
    for name, path in ways.files:
        try:
            _write(path, _text(found, name))
        except OSError as e:
            say(f"{path} cannot be written: {e.strerror or e}")
    if ways.webhook and found.status:
        _call(ways.webhook, found)
    if quiet and found.status == 0:
        return
    if form == "terminal":
        shown = found.model_copy(update={"hosts": [h for h in found.hosts if h.status]}) if quiet else found
        show(lambda console: _draw(shown, console))
    elif form == "github":
        put(machines.github_annotations(found))
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            try:
                with open(summary, "a", encoding="utf-8") as f:
                    f.write(machines.github_summary(found))
            except OSError as e:
                say(f"{summary} cannot be written: {e.strerror or e}")
    else:
        put(_text(found, form))


def _draw(found: CheckFile, console: Console) -> None:
    color = console.color_system is not None and not console.no_color
    console.file.write(fleet.render(found, width=console.width, color=color, encoding=console.encoding))


def _text(found: CheckFile, form: str) -> str:
    if form == "prometheus":
        return machines.prometheus(found, time.time())
    forms = {
        "json": machines.as_json, "junit": machines.junit, "github": machines.github_summary, "nagios": machines.nagios,
    }  # fmt: skip
    return forms[form](found)


def _write(path: Path, text: str) -> None:
    """Whole or not at all: the textfile collector may read at any moment."""
    temporary = None
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".", delete=False) as f:
            temporary = Path(f.name)
            f.write(text)
        temporary.chmod(0o644)  # the one who reads it is another user
        temporary.replace(path)
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _call(address: str, found: CheckFile) -> None:
    import httpx

    try:
        answer = httpx.post(address, json=machines.webhook(found), timeout=WEBHOOK_S)
        if answer.is_error:
            say(f"the webhook answered {answer.status_code}")
    except (httpx.HTTPError, httpx.InvalidURL) as e:  # its address is a secret: the library's words may hold it
        say(f"the webhook could not be told: {type(e).__name__}")
