"""`bundle`: a capture to hand on, without who and where."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dflash_doctor.cli import options as o
from dflash_doctor.cli.progress import PATIENCE_S, Watch
from dflash_doctor.cli.streams import put, say
from dflash_doctor.model import Refused
from dflash_doctor.report.hosttext import plain

if TYPE_CHECKING:
    from dflash_doctor.bundle import Replaced

FILES = 3  # named for one original, the rest is counted


def bundle(
    target: o.Target,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.tar.gz|DIR", help="Where it goes.", show_default=False)
    ],
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
    """Write a capture that can be shared.

    Secrets, host names, users, addresses and the texts of prompts are replaced by stand-ins, the same in every file; a
    diagnosis of it finds the same. What was replaced is listed on stdout. Other hosts that only a log line names can
    stay: read the list and the files before you share.
    """
    from dflash_doctor import bundle as bundling
    from dflash_doctor import collect, parsers
    from dflash_doctor.cli.looking import How, capture_of, host_of

    how = How(
        load=load, preset=preset, busy_ok=busy_ok, max_running=max_running, api=api, engine_port=engine_port,
        accept_new_host_key=accept_new_host_key, api_key_env=api_key_env, api_key_file=api_key_file,
        ssh_config=ssh_config, log=log,
    )  # fmt: skip
    host = host_of(target, how)
    collect.check_free(output)
    capture = capture_of(host, how)
    reads = [pattern for p in parsers.ALL for pattern in p.READS]
    with tempfile.TemporaryDirectory() as folder, Watch("replacing names", PATIENCE_S):
        shared = bundling.redacted(capture, collect.hider(), reads, Path(folder))
        if set(shared.capture.files) == {bundling.LIST} and not shared.capture.large:
            raise Refused(f"{target} holds nothing that a diagnosis reads")
        collect.save(shared.capture, output)
    for gap in shared.left_behind:
        say(f"left behind: {gap.what}: {gap.why}")
    for name in shared.doubts:
        say(f"note: the name {name} is also a common word and was left where it stands")
    put("".join(f"{line}\n" for line in lines(shared.replaced)))
    say(f"the bundle is in {output}")


def lines(replaced: Sequence[Replaced]) -> list[str]:
    """`host name  gpu7 -> host-1, 12 times in server.log`; secrets and texts are only counted."""
    out = []
    for r in replaced:
        named = f"{plain(r.original)} -> {r.alias}" if r.original else r.alias
        more = f" and {len(r.files) - FILES} more" if len(r.files) > FILES else ""
        times = "once" if r.times == 1 else f"{r.times:,} times"
        out.append(f"{r.kind}  {named}, {times} in {', '.join(map(plain, r.files[:FILES]))}{more}")
    return out or ["nothing had to be replaced"]
