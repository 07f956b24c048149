"""`check`: many hosts, a few at a time; quiet when all is well, the gravest first when not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dflash_doctor.cli import options as o
from dflash_doctor.model import Refused

FORMS = ("terminal", "json", "junit", "github", "prometheus", "nagios")
_form, _forms = o.one_of("--format", FORMS)


def check(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...",
            show_default=False,
            help="Hosts as `diagnose` takes them, and patterns of names in ~/.ssh/config (gpu*); with --hosts, which "
            "of the list.",
        ),
    ] = None,
    hosts: Annotated[
        list[Path] | None,
        typer.Option(
            "--hosts",
            "-H",
            metavar="FILE",
            help="A hosts.yaml, or a plain list with one target a line (default: hosts.yaml in "
            "$XDG_CONFIG_HOME/dflash-doctor).",
        ),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", "-g", metavar="NAME", help="Only this group of the list.")
    ] = None,
    baseline: Annotated[str | None, o.BASELINE] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="FORM",
            callback=_form,
            autocompletion=_forms,
            help=f"What the summary is written as: {', '.join(FORMS)}.",
        ),
    ] = "terminal",
    also: Annotated[
        list[str] | None,
        typer.Option("--also", metavar="FORM=FILE", help="Write it in another form too, as --also junit=out.xml."),
    ] = None,
    webhook_env: Annotated[
        str | None,
        typer.Option(
            "--webhook-env",
            metavar="NAME",
            help="Variable here that holds the address of a webhook (Slack's or its likes), told when not all is well.",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing when all is well, and only what is not otherwise.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 2 when anything could not be seen, with 1 when unconfirmed.")
    ] = False,
    at_once: Annotated[
        int, typer.Option("--at-once", "-j", metavar="N", min=1, max=256, help="How many hosts at a time.")
    ] = 16,
    deadline: Annotated[
        float,
        typer.Option("--deadline", metavar="SECONDS", min=1.0, help="A host that takes longer is given up."),
    ] = 600.0,
    afresh: Annotated[
        bool, typer.Option("--afresh", help="Begin anew, although an interrupted check of these hosts could go on.")
    ] = False,
    no_history: Annotated[
        bool, typer.Option("--no-history", rich_help_panel=o.KEEP, help="Keep no run; nothing can be taken up then.")
    ] = False,
    history: o.History = None,
    load: o.Load = None,
    preset: o.Preset = "quick",
    busy_ok: o.BusyOk = False,
    max_running: o.MaxRunning = 0,
    accept_new_host_key: o.AcceptNew = False,
    api_key_env: o.ApiKeyEnv = None,
    ssh_config: o.SshConfig = None,
    store: o.Store = None,
) -> None:
    """Look at many hosts, as diagnose looks at one.

    Each host is held against its baseline; a small loss has to be seen by two checks. Exit status: 1 when any host
    regressed or is suspect, else 2 when any could not be looked at, else 0.
    """
    from contextlib import ExitStack

    from dflash_doctor import history as histories
    from dflash_doctor.cli.choosing import opened
    from dflash_doctor.cli.fleets import Fleet
    from dflash_doctor.cli.looking import How
    from dflash_doctor.cli.telling import outlets, tell

    if afresh and no_history:
        raise Refused("--afresh and --no-history exclude each other")
    ways = outlets(also or [], webhook_env)  # a wrong word is said before any host is looked at
    how = How(
        load=load, preset=preset, busy_ok=busy_ok, max_running=max_running, accept_new_host_key=accept_new_host_key,
        api_key_env=api_key_env, ssh_config=ssh_config,
    )  # fmt: skip
    with ExitStack() as stack:
        kept = None if no_history else stack.enter_context(histories.opened(history))
        fleet = Fleet(targets or [], hosts or [], group or [], how, baseline, opened(store), kept, strict=strict)
        found = fleet.look(at_once=at_once, deadline_s=deadline, afresh=afresh)
    tell(found, format, ways, quiet=quiet)
    raise typer.Exit(found.status)
