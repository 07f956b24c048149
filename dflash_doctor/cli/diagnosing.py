"""`diagnose`: the main job, from a host or a capture to a named cause."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dflash_doctor.cli import options as o
from dflash_doctor.cli.progress import PATIENCE_S, Watch
from dflash_doctor.cli.streams import put, say, show
from dflash_doctor.model import Capture, Carry, Comparison, Diagnosis, Host, Refused, Snapshot

if TYPE_CHECKING:
    from dflash_doctor.baselines import Store
    from dflash_doctor.cli.choosing import Named
    from dflash_doctor.formats.report import ReportFile

FORMATS = ("terminal", "json", "markdown", "html")
CALM = ("healthy", "minor", "unconfirmed")
_format, _formats = o.one_of("--format", FORMATS)


def diagnose(
    target: o.Target,
    baseline: Annotated[str | None, o.BASELINE] = None,
    no_baseline: Annotated[bool, typer.Option("--no-baseline", help="Take no baseline, even where one fits.")] = False,
    compare_anyway: Annotated[
        bool,
        typer.Option("--compare-anyway", help="Hold the numbers against each other although the hardware differs."),
    ] = False,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="FORM",
            callback=_format,
            autocompletion=_formats,
            help="What the report is written as: terminal, json, markdown or html.",
        ),
    ] = "terminal",
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with 2 when anything could not be seen, with 1 when unconfirmed."),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="DIR|FILE.tar.gz",
            rich_help_panel=o.KEEP,
            help="Keep the capture too, as a folder or an archive that can be diagnosed again.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            rich_help_panel=o.KEEP,
            dir_okay=False,
            help="Write the report there as a page with pictures too; one that is there is replaced.",
        ),
    ] = None,
    load: o.Load = None,
    preset: o.Preset = "quick",
    busy_ok: o.BusyOk = False,
    max_running: o.MaxRunning = 0,
    api: o.Api = None,
    engine_port: o.EnginePort = None,
    accept_new_host_key: o.AcceptNew = False,
    api_key_env: o.ApiKeyEnv = None,
    api_key_file: o.ApiKeyFile = None,
    ssh_config: o.SshConfig = None,
    log: o.Log = None,
    store: o.Store = None,
) -> None:
    """Name what made a server slower.

    Looks at the host, holds it against its tuned state, and says what regressed, by how much each cause accounts for
    it, on what evidence, and what to type next. Exit status: 0 healthy or minor, 1 regressed or suspect, 2 not known.
    """
    from dflash_doctor import collect
    from dflash_doctor.cli.choosing import named, opened
    from dflash_doctor.cli.looking import How, capture_of, host_of

    if baseline and no_baseline:
        raise Refused("--baseline and --no-baseline exclude each other")
    if html is not None or format == "html":
        _check_page(html)
    how = How(
        load=load, preset=preset, busy_ok=busy_ok, max_running=max_running, api=api, engine_port=engine_port,
        accept_new_host_key=accept_new_host_key, api_key_env=api_key_env, api_key_file=api_key_file,
        ssh_config=ssh_config, log=log,
    )  # fmt: skip
    host = host_of(target, how)
    kept = opened(store)
    asked = None if baseline is None else named(baseline, kept)  # a wrong name is said before the host has its load
    if save is not None:
        collect.check_free(save)
    if asked is not None:
        how = replace(how, was=asked[0])
    capture = capture_of(host, how)
    if save is not None:
        collect.save(capture, save)
        say(f"the capture is in {save}")
    with Watch("reading what was said", PATIENCE_S):
        found = judged(host, capture, asked, kept, no_baseline=no_baseline, anyway=compare_anyway)
    if html is not None:
        _write_page(found, html)
    _show(found, format)
    raise typer.Exit(status(found, strict=strict))


def judged(
    host: Host,
    capture: Capture,
    asked: Named | None,
    kept: Store,
    *,
    no_baseline: bool = False,
    anyway: bool = False,
) -> Diagnosis:
    """Everything after the looking: parse, choose the baseline, compare, diagnose. Touches no network."""
    from dflash_doctor import diagnose as diagnosing
    from dflash_doctor import parse
    from dflash_doctor.cli.choosing import chosen, names_of

    now = parse.parse(capture)
    pick = chosen(now, (str(now.host.get("host") or ""), *names_of(host)), asked, kept, none=no_baseline)
    held = _held(now, pick.was, anyway=anyway)
    found = diagnosing.diagnose(held, host.target, baseline=pick.name, baseline_why=pick.why, notes=pick.notes)
    return replace(found, carry=_carry(held))


def _carry(held: Comparison) -> tuple[Carry, ...]:
    """What has to be told to another engine or release; nothing where both sides run the same."""
    from dflash_doctor import port

    now, was = held.now, held.was
    if was is None or (now.engine, now.version) == (was.engine, was.version):
        return ()
    try:
        rows = port.items(was, now)
    except Refused:  # a side that says nothing of its settings has nothing to carry
        return ()
    return tuple(Carry(r.key, r.title, r.tuned, r.now, r.needs, r.why, r.weight) for r in rows)


def _held(now: Snapshot, was: Snapshot | None, *, anyway: bool) -> Comparison:
    from dflash_doctor import compare

    if was is not None:
        held = compare.compare(now, was)
        return replace(held, unlike=()) if anyway else held
    served = [boot for boot in now.earlier if boot.served is not False]
    if served:
        return compare.compare(now, served[-1], "previous boot")
    return compare.compare(now, None)


def _check_page(path: Path | None) -> None:
    """Refused when a page cannot be made or kept; asked before a host is troubled for it."""
    from dflash_doctor.report import html

    html.ready()
    if path is not None and (path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK)):
        why = "it is a folder" if path.is_dir() else "its folder is not there, or not yours to write"
        raise Refused(f"the page cannot be written to {path}: {why}")


def _write_page(found: Diagnosis, path: Path) -> None:
    from dflash_doctor.report import html

    try:
        path.write_text(html.render(found), encoding="utf-8")
    except OSError as e:  # the report is still shown
        say(f"{path} cannot be written: {e.strerror or e}")
    else:
        say(f"the page is in {path}")


def _show(found: Diagnosis, format: str) -> None:
    from dflash_doctor.report import as_json, html, markdown, terminal

    if format == "json":
        put(as_json.render(found))
    elif format == "html":
        put(html.render(found))
    elif format == "markdown":
        put(markdown.render(found))
    else:
        show(lambda console: terminal.show(found, console))


def status(found: Diagnosis | ReportFile, *, strict: bool = False) -> int:
    """CONTRACTS.md §5."""
    loud = any(f.severity != "info" for f in found.findings)
    if found.verdict == "regressed" or (found.verdict == "suspect" and loud):
        return 1
    if found.verdict == "unconfirmed" and strict:
        return 1
    if found.verdict not in (*CALM, "suspect"):
        return 2
    return 2 if strict and found.gaps else 0
