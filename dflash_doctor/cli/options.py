"""Flags that several commands share, said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="gpu7, me@gpu7:2222, localhost, http://gpu7:8000, or a capture: a folder, .tar.gz, server.log, or -.",
        show_default=False,
    ),
]
Load = Annotated[
    bool | None,
    typer.Option("--load/--no-load", help="Run the load rounds (default: on for live targets).", show_default=False),
]
Preset = Annotated[
    str, typer.Option("--preset", help="How much load: brief (15 s at most), quick (30 s) or standard (120 s).")
]
BusyOk = Annotated[bool, typer.Option("--busy-ok", help="Run the load although other requests are running.")]
EnginePort = Annotated[int | None, typer.Option("--engine-port", help="Which engine, where several serve on one host.")]
AcceptNew = Annotated[
    bool, typer.Option("--accept-new-host-key", help="Trust and remember a host key that is not known yet.")
]
ApiKeyEnv = Annotated[
    str | None, typer.Option("--api-key-env", metavar="NAME", help="Variable that holds the engine's API key.")
]
ApiKeyFile = Annotated[
    Path | None, typer.Option("--api-key-file", metavar="FILE", help="File that holds the engine's API key.")
]
SshConfig = Annotated[
    Path | None, typer.Option("--ssh-config", metavar="FILE", help="Instead of ~/.ssh/config and the system's own.")
]
Log = Annotated[str | None, typer.Option("--log", metavar="PATH", help="The engine's log on the host, if not found.")]
Store = Annotated[
    Path | None, typer.Option("--store", metavar="DIR", help="Where baselines are kept (default: XDG_DATA_HOME).")
]
