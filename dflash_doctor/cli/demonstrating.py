"""`demo`: the real commands against a simulated host, through real SSH and real HTTP on loopback."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dflash_doctor.cli.streams import put
from dflash_doctor.model import Refused

if TYPE_CHECKING:
    from dflash_doctor.simulate.demo import Demo

BASELINE = "tuned"
PRESET = "brief"  # a demo is watched from beginning to end


def _stories(incomplete: str) -> list[str]:
    from dflash_doctor.simulate.demo import DEMOS

    return [d.name for d in DEMOS if d.name.startswith(incomplete)]


def demo(
    story: Annotated[
        str | None,
        typer.Argument(
            metavar="STORY",
            autocompletion=_stories,
            show_default=False,
            help="Which one: a6000-dflash (the default), a6000-flash-attn-4 or healthy.",
        ),
    ] = None,
) -> None:
    """Tell a whole story on this machine, in half a minute.

    Captures a baseline of a simulated tuned host, then diagnoses what became of it: the real commands, through real
    SSH and HTTP on loopback. Needs no GPU and no root.
    """
    from dflash_doctor.simulate.demo import demo as story_of

    told = story_of(story)
    began = time.monotonic()
    _tell(f"{told.story}\n")
    with tempfile.TemporaryDirectory(prefix="dflash-doctor-demo-") as folder:
        store = Path(folder) / "baselines"
        _act(told.tuned, "The tuned host is written down:", _capture(store))
        first = _act(told.broken, _opening(told), _diagnosis(store, told))
    _tell(f"That was the whole line in {time.monotonic() - began:.0f} s: SSH, logs, counters, load, baseline, rules.")
    _tell("Next: dflash-doctor explain CAUSE, or your own host: dflash-doctor diagnose HOST")
    raise typer.Exit(0 if first in _right(told) else 1)


def _right(told: Demo) -> tuple[int, ...]:
    """Exit statuses that fit the story: 0 for a healthy end, 1 for a named cause."""
    return (1,) if told.expects else (0,)


def _capture(store: Path) -> list[str]:
    words = ["baseline", "capture", "{host}", "--name", BASELINE, "--why", "MTP, 3 drafted"]
    return [*words, "--preset", PRESET, "--store", str(store)]


def _diagnosis(store: Path, told: Demo) -> list[str]:
    words = ["diagnose", "{host}", "--baseline", BASELINE, "--store", str(store)]
    return [*words, "--preset", PRESET] if told.served else [*words, "--no-load"]


def _opening(told: Demo) -> str:
    if not told.expects:
        return "A day later somebody wants to be sure and types:"
    state = "is slow" if told.served else "does not come up"
    return f"Today the same host {state}, and somebody types:"


def _act(scenario: str, opening: str, words: list[str]) -> int:
    """Start the scenario's host and run one command against it; returns its exit status."""
    from dflash_doctor.simulate.host import SimulatedHost

    with SimulatedHost(scenario) as host:
        argv = [w.replace("{host}", host.target) for w in words]
        shown = [a for i, a in enumerate(argv) if "--store" not in (a, argv[i - 1])]
        _tell(f"{opening}\n\n    $ dflash-doctor {shlex.join(shown)}\n")
        status = _run([*argv, "--ssh-config", str(host.ssh_config)])
        _tell("")
        return status


def _run(argv: list[str]) -> int:
    from dflash_doctor import cli

    try:
        status = cli.app(argv, standalone_mode=False)
    except typer.Exit as e:
        status = e.exit_code
    except Refused as e:
        raise Refused(f"the demo went wrong at {argv[0]}: {e}") from e
    return status if isinstance(status, int) else 0


def _tell(text: str) -> None:
    put(text + "\n")
    sys.stdout.flush()
