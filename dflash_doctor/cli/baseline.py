"""`baseline`: write down what a tuned server gives, list, show and compare what was written."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dflash_doctor import __version__
from dflash_doctor.cli import options as o
from dflash_doctor.cli.pages import Page
from dflash_doctor.cli.streams import put, say, show
from dflash_doctor.model import Refused, Snapshot
from dflash_doctor.report.hosttext import plain

if TYPE_CHECKING:
    from dflash_doctor.baselines import Entry

app = typer.Typer(help="Write down, list, show and compare what tuned servers give.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a baseline.", autocompletion=o.baseline_names)]


@app.command(cls=Page)
def capture(
    target: o.Target,
    name: Annotated[
        str,
        typer.Option("--name", "-n", metavar="NAME", help="How it is called, as qwen3.6-27b.a6000x2.sglang-mtp is."),
    ],
    why: Annotated[
        str | None, typer.Option("--why", metavar="TEXT", help="What was tuned, for whoever reads it later.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite a baseline of this name; needs --reason.")
    ] = False,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why it is overwritten.")] = None,
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
    """Keep what a tuned server gives, under a name."""
    from dflash_doctor import baselines, parse
    from dflash_doctor.cli.looking import How, capture_of, host_of
    from dflash_doctor.formats.baseline import from_snapshot

    kept = baselines.Store(store)
    kept.check_name(name, replace=replace, reason=reason)  # before the host is put under load
    host = host_of(target, How(ssh_config=ssh_config))
    if load is None and host.kind != "capture":
        load = True  # without numbers there is nothing to hold a later day against; --no-load says otherwise
    how = How(
        load=load, preset=preset, busy_ok=busy_ok, max_running=max_running, api=api, engine_port=engine_port,
        accept_new_host_key=accept_new_host_key, api_key_env=api_key_env, api_key_file=api_key_file,
        ssh_config=ssh_config, log=log,
    )  # fmt: skip
    said = parse.parse(capture_of(host, how))
    if said.served is False:
        raise Refused(f"{host.target} does not serve (see `dflash-doctor diagnose {target}`): that is nothing to bless")
    if said.engine is None and not said.samples:
        seen = next((g.why for g in said.gaps if g.what == "engine"), "no engine and no numbers were seen there")
        raise Refused(f"{host.target} gives nothing to bless: {seen}")
    # a file's name is no host's: another server.log would be taken for the same machine
    called = said.host.get("host") or (None if host.kind == "capture" else host.target)
    passport = baselines.passport(
        host=str(called) if called else None, why=why, by=_me(), tool=__version__, taken_at=said.taken_at
    )
    path = kept.save(from_snapshot(said, name, passport), replace=replace, reason=reason, by=_me())
    for gap in said.gaps:
        say(f"not seen: {gap.what}: {gap.why}")
    say(f"{_summary(said)}; kept as {name} in {path}")


def _me() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a passwd entry
        return "unknown"


def _summary(s: Snapshot) -> str:
    rounds = [x for x in s.samples if x.metric == "output_tok_s" and x.prompt is None]
    measured = [x for x in rounds if x.workload is not None]
    by = {x.concurrency: x.value for x in measured or rounds}
    if not by:
        return "no speed was measured, so only settings and log lines can be held against it"
    found = ", ".join(
        f"{v:.3g} tok/s{f' at {c:g}' if c else ''}" for c, v in sorted(by.items(), key=lambda r: r[0] or 0)
    )
    return found if measured else f"{found} by its own log"


@app.command(name="list", cls=Page)
def list_(store: o.Store = None) -> None:
    """List all baselines: your own, then the shipped profiles."""
    from dflash_doctor.cli.choosing import opened

    entries, bad = opened(store).entries()
    put("".join(f"{line}\n" for line in _listed(entries)))
    for sentence in bad:
        say(f"left out: {sentence}")


def _listed(entries: list[Entry]) -> Iterator[str]:
    """Two lines for each: the name alone, to be copied, and what it is of. They fit 80 columns."""
    from dflash_doctor import baselines

    for head, shipped in (("your own", False), ("shipped, of published figures", True)):
        mine = [e for e in entries if e.shipped == shipped]
        if not mine:
            continue
        yield f"{head}:"
        for e in mine:
            c, p = e.baseline.conditions, e.baseline.passport
            cards = f"{len(c.gpus)}x {c.gpus[0].removeprefix('NVIDIA ')}" if c.gpus else None
            when = f"{p.host or '?'} {(p.captured_at or '')[:10]}".strip() if not shipped else None
            engine = f"{c.engine or ''} {c.engine_version or ''}".strip()
            speeds = baselines.speeds(e.baseline)
            about = (
                when,
                Path(c.model).name if c.model else None,
                cards,
                engine,
                f"tok/s {speeds}" if speeds != "-" else None,
            )
            yield f"  {plain(e.name)}"
            yield f"      {' · '.join(plain(x) for x in about if x)}"


@app.command(name="show", cls=Page)
def show_(name: Name, store: o.Store = None) -> None:
    """Print a baseline as it is stored."""
    from dflash_doctor.cli.choosing import opened

    put(opened(store).load(name).path.read_text(encoding="utf-8"))


@app.command(cls=Page)
def diff(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="A baseline's name, a baseline YAML, or a capture.", autocompletion=o.baseline_names
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The other one.", autocompletion=o.baseline_names)],
    store: o.Store = None,
) -> None:
    """Show what differs between two: settings first, then numbers."""
    from dflash_doctor import compare
    from dflash_doctor.cli.choosing import named, opened
    from dflash_doctor.report import terminal

    kept = opened(store)
    (was, _), (now, _) = named(a, kept), named(b, kept)
    held = compare.compare(now, was)
    show(lambda console: terminal.differences(held, console))


@app.command(cls=Page)
def rm(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove it without asking.")] = False,
    store: o.Store = None,
) -> None:
    """Remove one of your own baselines."""
    from dflash_doctor.cli.choosing import opened

    kept = opened(store)
    if kept.load(name).shipped:
        kept.remove(name)  # says why not
    if not yes:
        if sys.stdin is None or not sys.stdin.isatty():
            raise Refused("say --yes to remove a baseline without being asked")
        typer.confirm(f"remove the baseline {name}?", abort=True, err=True)
    say(f"removed {kept.remove(name)}")
