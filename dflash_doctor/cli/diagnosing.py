"""`diagnose`: the main job, from a host or a capture to a named cause."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dflash_doctor.cli import options as o
from dflash_doctor.cli.streams import put, say
from dflash_doctor.model import Capture, Comparison, Diagnosis, Host, Refused, Snapshot

FORMATS = ("terminal", "json", "markdown")
CALM = ("healthy", "minor", "unconfirmed")


def diagnose(
    target: o.Target,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", "-b", help="Name of a stored baseline, a baseline YAML, or any capture."),
    ] = None,
    no_baseline: Annotated[bool, typer.Option("--no-baseline", help="Take no baseline, also where one fits.")] = False,
    compare_anyway: Annotated[
        bool,
        typer.Option("--compare-anyway", help="Hold the numbers against each other although the hardware differs."),
    ] = False,
    format: Annotated[str, typer.Option("--format", "-f", help="terminal, json or markdown.")] = "terminal",
    strict: Annotated[
        bool, typer.Option("--strict", help="Anything that could not be seen gives exit status 2.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="DIR|FILE.tar.gz", help="Keep the capture of a live target too.")
    ] = None,
    load: o.Load = None,
    preset: o.Preset = "quick",
    busy_ok: o.BusyOk = False,
    engine_port: o.EnginePort = None,
    accept_new_host_key: o.AcceptNew = False,
    api_key_env: o.ApiKeyEnv = None,
    api_key_file: o.ApiKeyFile = None,
    ssh_config: o.SshConfig = None,
    log: o.Log = None,
    store: o.Store = None,
) -> None:
    """Name what made a tuned server slower, by how much, on what evidence, and what to type next."""
    from dflash_doctor import collect
    from dflash_doctor.cli.looking import How, capture_of, host_of

    if format not in FORMATS:
        raise Refused(f"--format {format} is not known; it is one of {', '.join(FORMATS)}")
    if baseline and no_baseline:
        raise Refused("--baseline and --no-baseline exclude each other")
    how = How(
        load=load, preset=preset, busy_ok=busy_ok, engine_port=engine_port, accept_new_host_key=accept_new_host_key,
        api_key_env=api_key_env, api_key_file=api_key_file, ssh_config=ssh_config, log=log,
    )  # fmt: skip
    host = host_of(target, how)
    capture = capture_of(host, how)
    if save is not None:
        collect.save(capture, save)
        say(f"the capture is in {save}")
    found = judged(host, capture, baseline, no_baseline=no_baseline, anyway=compare_anyway, store=store)
    _show(found, format)
    raise typer.Exit(status(found, strict=strict))


def judged(
    host: Host,
    capture: Capture,
    baseline: str | None = None,
    *,
    no_baseline: bool = False,
    anyway: bool = False,
    store: Path | None = None,
) -> Diagnosis:
    """Everything after the looking: parse, choose the baseline, compare, diagnose. Touches no network."""
    from dflash_doctor import baselines, parse
    from dflash_doctor import diagnose as diagnosing
    from dflash_doctor.cli.choosing import chosen

    now = parse.parse(capture)
    names = (host.target, str(now.host.get("host") or ""), host.address)
    pick = chosen(now, names, baseline, baselines.Store(store), none=no_baseline)
    held = _held(now, pick.was, anyway=anyway)
    return diagnosing.diagnose(held, host.target, baseline=pick.name, baseline_why=pick.why, notes=pick.notes)


def _held(now: Snapshot, was: Snapshot | None, *, anyway: bool) -> Comparison:
    from dflash_doctor import compare

    if was is not None:
        held = compare.compare(now, was)
        return replace(held, unlike=()) if anyway else held
    served = [boot for boot in now.earlier if boot.served is not False]
    if served:
        return compare.compare(now, served[-1], "previous boot")
    return compare.compare(now, None)


def _show(found: Diagnosis, format: str) -> None:
    from dflash_doctor.report import as_json, markdown, terminal

    if format == "json":
        put(as_json.render(found))
    elif format == "markdown":
        put(markdown.render(found))
    else:
        from rich.console import Console

        terminal.show(found, Console(file=sys.stdout))


def status(found: Diagnosis, *, strict: bool = False) -> int:
    """CONTRACTS.md §5."""
    loud = any(f.severity != "info" for f in found.findings)
    if found.verdict == "regressed" or (found.verdict == "suspect" and loud):
        return 1
    if found.verdict == "unconfirmed" and strict:
        return 1
    if found.verdict not in (*CALM, "suspect"):
        return 2
    return 2 if strict and found.gaps else 0
