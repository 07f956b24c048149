"""`collect`: everything a host says, stored as a capture that can be diagnosed later, anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dflash_doctor.cli import options as o
from dflash_doctor.cli.streams import put, say
from dflash_doctor.model import Refused


def collect(
    target: o.Target,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR|FILE.tar.gz", help="Where the capture goes.", show_default=False),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print every command that would run on the host, and exit.")
    ] = False,
    load: o.LoadOnWish = False,
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
) -> None:
    """Store what a host says.

    Writes a capture: named text files that can be diagnosed later, anywhere. Nothing but questions reaches the host
    unless --load is given.
    """
    from dflash_doctor import collect as collecting
    from dflash_doctor.cli.looking import How, capture_of, host_of

    how = How(
        load=load, preset=preset, busy_ok=busy_ok, max_running=max_running, api=api, engine_port=engine_port,
        accept_new_host_key=accept_new_host_key, api_key_env=api_key_env, api_key_file=api_key_file,
        ssh_config=ssh_config, log=log,
    )  # fmt: skip
    host = host_of(target, how)
    if plan:
        put(collecting.plan(host).rstrip("\n") + "\n")
        return
    if output is None:
        raise Refused("say where the capture goes: -o DIR or -o FILE.tar.gz (or --plan to see what would be asked)")
    collecting.check_free(output)
    capture = capture_of(host, how)
    collecting.save(capture, output)
    for gap in capture.gaps:
        say(f"not seen: {gap.what}: {gap.why}")
    count = len(capture.files) + len(capture.large)
    say(f"{count} file{'' if count == 1 else 's'} from {host.target} in {output}")
