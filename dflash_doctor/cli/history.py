"""`history`: how a host went over time, where its numbers turned, and what changed with that."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from dflash_doctor.cli import options as o
from dflash_doctor.cli.streams import put, say, show
from dflash_doctor.model import SPEED, Refused

if TYPE_CHECKING:
    from rich.console import Console

    from dflash_doctor.formats.history import HistoryFile, Night, Turn
    from dflash_doctor.history import Run, Trend
    from dflash_doctor.history import Turn as Turned

SHOWN = (*SPEED, "decode_tok_s", "step_time_ms", "accept_length")  # unless --all
DAYS, SNAPSHOT_DAYS = 400, 30  # what --prune keeps: a year to look back on, a month of runs that can be blessed
_form, _forms = o.one_of("--format", ("terminal", "json"))


def history(
    host: Annotated[
        str | None,
        typer.Argument(metavar="[HOST]", show_default=False, help="Which host, as `check` names it; none lists them."),
    ] = None,
    last: Annotated[int, typer.Option("--last", metavar="N", min=1, help="How many runs to look back on.")] = 400,
    all: Annotated[bool, typer.Option("--all", help="Every number, not only what users feel and its factors.")] = False,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="FORM",
            callback=_form,
            autocompletion=_forms,
            help="What it is written as: terminal or json.",
        ),
    ] = "terminal",
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help=f"Let go of runs older than {DAYS} days, and of what a baseline needs after {SNAPSHOT_DAYS}.",
        ),
    ] = False,
    history: o.History = None,
) -> None:
    """Show how a host went over time.

    Each number with its turning points and what changed there, and the verdict of every run. Without a host: all hosts.
    """
    from dflash_doctor import history as histories
    from dflash_doctor.report.history import render

    with histories.opened(history) as kept:
        if prune:
            say(f"{kept.prune(DAYS, SNAPSHOT_DAYS)} runs were let go")
            if host is None:
                return
        if host is None:
            put("".join(f"{name}  {n}\n" for name, n in kept.hosts()))
            return
        runs = kept.runs(host, last)
        if not runs:
            known = ", ".join(name for name, _ in kept.hosts()[:5]) or "none yet; `dflash-doctor check` keeps them"
            raise Refused(f"the history has no run of {host}; it has {known}")
        trends = [t for t in histories.trends(runs, kept.series(host)) if all or t.metric in SHOWN]
    found = _document(host, runs, trends)
    if format == "json":
        put(found.model_dump_json(by_alias=True, indent=1) + "\n")
        return

    def draw(console: Console) -> None:
        color = console.color_system is not None and not console.no_color
        console.file.write(render(found, width=console.width, color=color, encoding=console.encoding))

    show(draw)


def _document(host: str, runs: list[Run], trends: list[Trend]) -> HistoryFile:
    from dflash_doctor.formats.history import HistoryFile, Series

    when = {r.number: _iso(r.taken_at) for r in runs}
    series = [
        Series(
            metric=t.metric, workload=t.workload, concurrency=t.concurrency, taken_at=[when[n] for n in t.runs],
            values=list(t.values), turns=[_turn(x) for x in t.turns],
        )
        for t in trends
    ]  # fmt: skip
    return HistoryFile(host=host, nights=[_night(r) for r in runs], series=series)


def _night(run: Run) -> Night:
    from dflash_doctor.formats.history import Night

    report = run.report
    engine = None if report is None else f"{report.engine.name or ''} {report.engine.version or ''}".strip()
    causes = [] if report is None else [f.cause for f in report.findings if f.severity != "info"]
    return Night(
        taken_at=_iso(run.taken_at), verdict=run.verdict, says=run.says, baseline=run.baseline, engine=engine or None,
        causes=causes,
    )  # fmt: skip


def _turn(turn: Turned) -> Turn:
    from dflash_doctor.formats.history import Changed, Turn

    c = turn.change
    return Turn(
        at=c.at, taken_at=_iso(turn.run.taken_at), before=c.before, after=c.after, p=c.p,
        factor=turn.factor if 0 < turn.factor < float("inf") else None,
        changed=[Changed(key=k, was=was, now=now) for k, was, now in turn.changed],
    )  # fmt: skip


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
