"""`ab`: two live servers against each other, each prompt A B B A, and which of them is faster."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from dflash_doctor.cli import options as o
from dflash_doctor.cli.streams import put
from dflash_doctor.model import Gap, Refused

if TYPE_CHECKING:
    from dflash_doctor.formats.load import Decision
    from dflash_doctor.load import Ab

FORMATS = ("terminal", "json")
_format, _formats = o.one_of("--format", FORMATS)
Live = "gpu7, me@gpu7:2222, localhost or http://gpu7:8000."


def ab(
    a: Annotated[str, typer.Argument(metavar="TARGET_A", help=f"A live server: {Live}", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="TARGET_B", help="The other one.", show_default=False)],
    format: Annotated[
        str,
        typer.Option(
            "--format", metavar="NAME", callback=_format, autocompletion=_formats, help="terminal or json, on stdout."
        ),
    ] = "terminal",
    preset: o.Preset = "standard",
    busy_ok: o.BusyOk = False,
    max_running: o.MaxRunning = 0,
    api: o.Api = None,
    accept_new_host_key: o.AcceptNew = False,
    api_key_env: o.ApiKeyEnv = None,
    api_key_file: o.ApiKeyFile = None,
    ssh_config: o.SshConfig = None,
) -> None:
    """Say which of two live servers is faster.

    Each prompt goes to both, in the order A B B A or B A A B, one request at a time. It ends as soon as one is faster
    or both are within 3 % of each other, and after twice the preset's seconds at most.
    """
    from dflash_doctor import collect, load
    from dflash_doctor.cli.looking import How, api_key, host_of
    from dflash_doctor.cli.progress import Watch

    how = How(
        accept_new_host_key=accept_new_host_key, api_key_env=api_key_env, api_key_file=api_key_file,
        ssh_config=ssh_config,
    )  # fmt: skip
    hosts = [host_of(target, how) for target in (a, b)]
    if stored := next((h.target for h in hosts if h.kind == "capture"), None):
        raise Refused(f"{stored} is no live server: stored captures are compared by diagnose --baseline")
    key = api_key(how)
    seen = collect.Options(accept_new_host_key=accept_new_host_key, api_key=key)
    with Watch(f"connecting to {a} and {b}") as watch, ExitStack() as sessions:
        urls = []
        for host in hosts:
            session = collect.open_session(host, seen)
            sessions.enter_context(session)
            end = session.endpoint()
            if isinstance(end, Gap):
                raise Refused(f"no load can be run on {host.target}: {end.why}")
            urls.append(end.url)
        found = load.ab(
            (urls[0], urls[1]), preset_name=preset, api_key=key, busy_ok=busy_ok, max_running=max_running, api=api,
            tell=lambda phase, done, total: watch.phase(f"{phase}: {done}/{total}"),
        )  # fmt: skip
    put(_json(found) if format == "json" else "".join(f"{line}\n" for line in lines(found, a, b)))


def lines(found: Ab, a: str, b: str) -> list[str]:
    """What a person reads: the answer, then on what it rests."""
    s = found.speed
    if found.faster is None:
        head = f"No difference was found: {b} gives {_factor(s)} of the decode speed of {a}."
        head += f" A loss from {s.detectable:.0%} on would have shown."
    else:
        quick, slow = (b, a) if found.faster == "B" else (a, b)
        times, low, high = (s.factor, s.low, s.high) if found.faster == "B" else (1 / s.factor, 1 / s.high, 1 / s.low)
        head = f"{quick} is faster: {times:.2f} times the decode speed of {slow} ({low:.2f} to {high:.2f})."
    rest = [f"{found.prompts} prompts, each twice to both in turn; {found.same_text} with the same text every time"]
    if found.step is not None:
        rest.append(f"step time of {b}: {_factor(found.step)} of that of {a}")
    if found.tokens is not None:
        rest.append(f"tokens per step of {b}: {_factor(found.tokens)} of those of {a}")
    if found.models[0] != found.models[1]:
        rest.append(f"the models have different names: {found.models[0]} and {found.models[1]}")
    return [head, *(f"  {line}" for line in (*rest, *found.notes))]


def _factor(d: Decision) -> str:
    return f"{d.factor:.2f} ({d.low:.2f} to {d.high:.2f})"


def _json(found: Ab) -> str:
    fields = {k: v.model_dump() if hasattr(v, "model_dump") else v for k, v in asdict(found).items()}
    return json.dumps({"schema": "dflash-doctor/ab/1", "faster": found.faster, **fields}, indent=1) + "\n"
