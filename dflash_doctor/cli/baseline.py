"""`baseline`: write down what a tuned server gives, list, show and compare what was written."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated

import typer

from dflash_doctor import __version__
from dflash_doctor.cli import options as o
from dflash_doctor.cli.streams import put, say
from dflash_doctor.model import Refused, Snapshot

app = typer.Typer(help="Baselines: what a tuned server gives, blessed and kept.", no_args_is_help=True)


def _names(incomplete: str) -> list[str]:
    from dflash_doctor import baselines

    return [e.name for e in baselines.Store().entries()[0] if e.name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(metavar="NAME", help="A stored baseline.", autocompletion=_names)]


@app.command()
def capture(
    target: o.Target,
    name: Annotated[str, typer.Option("--name", "-n", help="model.GPUxN.engine-version, say.")],
    why: Annotated[str | None, typer.Option("--why", help="What was tuned, for whoever reads it later.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a baseline of this name.")] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="Why it is overwritten (with --replace).")] = None,
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
    """Look at a tuned server and keep what it gives under a name."""
    from dflash_doctor import baselines, parse
    from dflash_doctor.cli.looking import How, capture_of, host_of
    from dflash_doctor.formats.baseline import from_snapshot

    kept = baselines.Store(store)
    kept.check_name(name, replace=replace, reason=reason)  # before the host is put under load
    host = host_of(target, How(ssh_config=ssh_config))
    if load is None and host.kind != "capture":
        load = True  # without numbers there is nothing to hold a later day against; --no-load says otherwise
    how = How(
        load=load, preset=preset, busy_ok=busy_ok, engine_port=engine_port, accept_new_host_key=accept_new_host_key,
        api_key_env=api_key_env, api_key_file=api_key_file, ssh_config=ssh_config, log=log,
    )  # fmt: skip
    said = parse.parse(capture_of(host, how))
    if said.served is False:
        raise Refused(f"{host.target} does not serve (see `dflash-doctor diagnose {target}`): that is nothing to bless")
    passport = baselines.passport(
        host=str(said.host.get("host") or host.target), why=why, by=_me(), tool=__version__, taken_at=said.taken_at
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
    measured = [x for x in s.samples if x.metric == "output_tok_s" and x.workload is not None and x.prompt is None]
    if not measured:
        return "no speed was measured"
    by = {x.concurrency: x.value for x in measured}
    return ", ".join(f"{v:.3g} tok/s at {c:g}" for c, v in sorted(by.items(), key=lambda r: r[0] or 0))


@app.command(name="list")
def list_(store: o.Store = None) -> None:
    """All baselines: your own first, then the shipped profiles."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from dflash_doctor import baselines

    entries, bad = baselines.Store(store).entries()
    table = Table(box=None, pad_edge=False)
    for head in ("name", "from", "model", "GPUs", "engine", "output tok/s"):
        table.add_column(head, overflow="fold", no_wrap=head == "name")
    for e in entries:
        c = e.baseline.conditions
        cards = f"{len(c.gpus)}x {c.gpus[0]}" if c.gpus else "?"
        row = (e.name, "shipped" if e.shipped else e.baseline.passport.host or "?", Path(c.model or "?").name, cards,
               f"{c.engine or '?'} {c.engine_version or ''}".strip(), baselines.speeds(e.baseline))  # fmt: skip
        table.add_row(*(Text(x) for x in row))
    Console(file=sys.stdout).print(table)
    for sentence in bad:
        say(f"left out: {sentence}")


@app.command()
def show(name: Name, store: o.Store = None) -> None:
    """Print one baseline as it is stored."""
    from dflash_doctor import baselines

    put(baselines.Store(store).load(name).path.read_text(encoding="utf-8"))


@app.command()
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A baseline's name, a baseline YAML, or a capture.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The same.")],
    store: o.Store = None,
) -> None:
    """What differs between two baselines or captures: settings first, then numbers."""
    from rich.console import Console

    from dflash_doctor import baselines, compare
    from dflash_doctor.cli.choosing import named
    from dflash_doctor.report import terminal

    kept = baselines.Store(store)
    (was, _), (now, _) = named(a, kept), named(b, kept)
    terminal.differences(compare.compare(now, was), Console(file=sys.stdout))


@app.command()
def rm(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    store: o.Store = None,
) -> None:
    """Remove one of your own baselines."""
    from dflash_doctor import baselines

    kept = baselines.Store(store)
    kept.load(name)
    if not yes:
        if not sys.stdin.isatty():
            raise Refused("say --yes to remove a baseline without being asked")
        typer.confirm(f"remove the baseline {name}?", abort=True, err=True)
    say(f"removed {kept.remove(name)}")
