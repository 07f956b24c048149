"""Flags that several commands share, said once, with the words they take and what a shell may complete."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from dflash_doctor.model import Refused

# groups of --help: what most people need stands first, under "Options"
LOAD, REACH, KEEP = "The load", "Reaching the host", "Where things are kept"


def one_of(option: str, words: tuple[str, ...]) -> tuple[Callable[[str], str], Callable[[str], list[str]]]:
    """A check and a completion for an option that takes one of a few words."""

    def check(value: str) -> str:
        if value not in words:
            raise Refused(f"{option} {value} is not known; it is one of {', '.join(words)}")
        return value

    def complete(incomplete: str) -> list[str]:
        return [w for w in words if w.startswith(incomplete)]

    return check, complete


def _presets() -> list[str]:
    import yaml

    from dflash_doctor import paths

    return list(yaml.safe_load(paths.probes("load", "presets.yaml").read_text(encoding="utf-8")))


def _preset(value: str) -> str:
    check, _ = one_of("--preset", tuple(_presets()))
    return check(value)


def baseline_names(incomplete: str) -> list[str]:
    """Stored and shipped baselines, for completion: by their file names, so that it is quick."""
    from dflash_doctor.baselines import Store as Kept

    return [n for n in Kept().names() if n.startswith(incomplete)]


Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="gpu7, me@gpu7:2222, localhost, http://gpu7:8000, or a capture: a folder, .tar.gz, server.log, or -.",
        show_default=False,
    ),
]
BASELINE = typer.Option(
    "--baseline", "-b", metavar="NAME|PATH", autocompletion=baseline_names,
    help="The tuned side: a stored baseline's name, a baseline YAML, or any capture (default: the one that fits).",
)  # fmt: skip
Load = Annotated[
    bool | None,
    typer.Option(
        "--load/--no-load", show_default=False, rich_help_panel=LOAD,
        help="Run the load rounds (default: on for live targets, off for stored ones).",
    ),
]  # fmt: skip
LoadOnWish = Annotated[
    bool, typer.Option("--load/--no-load", rich_help_panel=LOAD, show_default=False,
                       help="Run the load rounds too (default: off, only questions are asked)."),
]  # fmt: skip
Preset = Annotated[
    str,
    typer.Option(
        "--preset", metavar="NAME", rich_help_panel=LOAD, callback=_preset,
        autocompletion=lambda incomplete: [p for p in _presets() if p.startswith(incomplete)],
        help="How much load: brief (15 s at most), quick (30 s), standard (2 min) or thorough (7 min).",
    ),
]  # fmt: skip
BusyOk = Annotated[
    bool,
    typer.Option("--busy-ok", rich_help_panel=LOAD, help="Run the load although other requests are running."),
]
MaxRunning = Annotated[
    int,
    typer.Option(
        "--max-running", metavar="N", min=0, rich_help_panel=LOAD,
        help="Run the load beside so many requests of others at most.",
    ),
]  # fmt: skip
Api = Annotated[
    str | None,
    typer.Option(
        "--api", metavar="PATH", rich_help_panel=LOAD,
        help="Ask in this API only, as /v1/completions (default: what the server takes).",
    ),
]  # fmt: skip
EnginePort = Annotated[
    int | None,
    typer.Option(
        "--engine-port", metavar="PORT", min=1, max=65535, rich_help_panel=REACH,
        help="Which engine to look at, where several serve on one host.",
    ),
]  # fmt: skip
AcceptNew = Annotated[
    bool,
    typer.Option(
        "--accept-new-host-key", rich_help_panel=REACH,
        help="Trust and remember a host key that is not known yet; a changed one stays refused.",
    ),
]  # fmt: skip
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(
        "--api-key-env", metavar="NAME", rich_help_panel=REACH, help="Variable here that holds the engine's API key."
    ),
]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option(
        "--api-key-file", metavar="FILE", rich_help_panel=REACH, help="File here that holds the engine's API key."
    ),
]
SshConfig = Annotated[
    Path | None,
    typer.Option(
        "--ssh-config",
        metavar="FILE",
        rich_help_panel=REACH,
        help="Read this instead of ~/.ssh/config and the system's.",
    ),
]
Log = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="PATH",
        rich_help_panel=REACH,
        help="Where the engine's log is on the host, if it is not found.",
    ),
]
Store = Annotated[
    Path | None,
    typer.Option(
        "--store", metavar="DIR", rich_help_panel=KEEP, file_okay=False,
        help="Folder of your baselines (default: $XDG_DATA_HOME/dflash-doctor/baselines).",
    ),
]  # fmt: skip
History = Annotated[
    str | None,
    typer.Option(
        "--history", metavar="PATH|URL", rich_help_panel=KEEP, envvar="DFLASH_DOCTOR_HISTORY", show_envvar=False,
        help="Where runs are kept: a SQLite file, or postgresql://… (default: $XDG_DATA_HOME/dflash-doctor).",
    ),
]  # fmt: skip
