"""`port`: a tuned setup as the other engine, or another release, would run it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dflash_doctor.cli import options as o
from dflash_doctor.cli.streams import put, say
from dflash_doctor.model import Refused, Snapshot

if TYPE_CHECKING:
    from dflash_doctor.cli.looking import How

FORMATS = ("terminal", "markdown", "json", "launch")


def _words(option: str, words: tuple[str, ...]) -> Callable[[str], list[str]]:
    return o.one_of(option, words)[1]


def port(
    tuned: Annotated[
        str,
        typer.Argument(
            metavar="TUNED",
            help="The tuned side: a stored baseline's name, a baseline YAML, a capture, or a live host.",
            show_default=False,
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="ENGINE",
            show_default=False,
            autocompletion=_words("--to", ("vllm", "sglang")),
            help="The engine to port to: vllm or sglang.",
        ),
    ],
    version: Annotated[
        str | None,
        typer.Option(
            "--version", metavar="RELEASE", help="Its release (default: that of --against, else the newest known)."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="TARGET", help="The side to port to, as it runs now: as for TUNED."),
    ] = None,
    as_: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="FORM",
            autocompletion=_words("--as", ("shell", "compose", "k8s")),
            help="How the launch is written: shell, compose or k8s.",
        ),
    ] = "shell",
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar="NAME", help="The cards of the other side, where no capture shows them."),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="FORM",
            autocompletion=_words("--format", FORMATS),
            help="What is printed: terminal, markdown, json, or launch for the launch alone.",
        ),
    ] = "terminal",
    engine_port: o.EnginePort = None,
    accept_new_host_key: o.AcceptNew = False,
    ssh_config: o.SshConfig = None,
    log: o.Log = None,
    store: o.Store = None,
) -> None:
    """Carry a tuned setup over to the other engine.

    Writes the launch as the other engine, or another release, would have it, and says what is missing, risky or has no
    equivalent there.
    """
    from dflash_doctor import port as porting
    from dflash_doctor.cli.looking import How
    from dflash_doctor.port import show

    _known("--as", as_, tuple(porting.FORMS))
    _known("--format", format, FORMATS)
    _known("--to", to, tuple(porting.ENGINES))
    how = How(
        load=False, engine_port=engine_port, accept_new_host_key=accept_new_host_key, ssh_config=ssh_config, log=log
    )
    ported = porting.port(
        _side(tuned, how, store), to, version, None if against is None else _side(against, how, store), gpu
    )
    if format == "json":
        put(show.as_json(ported))
    elif format == "markdown":
        put(show.markdown(ported, as_))
    elif format == "launch":
        put(porting.written(ported.launch, as_))
        say(show.summary(ported))
    else:
        put(show.terminal(ported, as_, shutil.get_terminal_size((120, 24)).columns))


def _known(option: str, word: str, words: tuple[str, ...]) -> None:
    if word not in words:
        raise Refused(f"{option} {word} is not known; it is one of {', '.join(words)}")


def _side(text: str, how: How, store: Path | None) -> Snapshot:
    """One side: what is stored under this name or path, else the host that is called so."""
    from dflash_doctor import parse
    from dflash_doctor.cli.choosing import named, opened
    from dflash_doctor.cli.looking import capture_of, host_of

    kept = opened(store)
    live = "@" in text or "://" in text or text == "localhost" or ":" in text
    if not live:
        try:
            snapshot, name = named(text, kept)
            return replace(snapshot, name=name)
        except Refused as e:
            # a bare word that is no baseline's name, nor near one, is a host
            if "there is no baseline named" not in str(e) or "near it" in str(e):
                raise
    host = host_of(text, how)
    return replace(parse.parse(capture_of(host, how)), name=host.target)
