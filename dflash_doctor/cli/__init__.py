"""The conductor: flags in, one call per stage, a report on stdout, everything else on stderr, an exit status.

0 healthy or minor, 1 regressed or a loud suspicion, 2 could not look (CONTRACTS.md §5). Only this package knows that
there is a line from hosts to reports; the stages do not know each other. Heavy stages are imported by the command that
needs them, so that `--help` and completion answer at once.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dflash_doctor import __version__
from dflash_doctor.cli import (
    baseline,
    bundling,
    checking,
    collecting,
    comparing,
    demonstrating,
    diagnosing,
    explaining,
    history,
    loading,
    porting,
)
from dflash_doctor.cli.pages import Page
from dflash_doctor.cli.streams import nowhere, say
from dflash_doctor.model import Refused, Unreadable

__all__ = ["app", "main"]


class Kind(TyperGroup):
    """Trouble that the user can mend is one sentence and exit status 2; a bug keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (Refused, Unreadable) as e:
            say(f"dflash-doctor: {e}")
        except KeyboardInterrupt:
            say("dflash-doctor: stopped; nothing is left behind")
        except BrokenPipeError:  # `| head` has seen enough
            nowhere()
            raise typer.Exit(0) from None
        raise typer.Exit(2)


app = typer.Typer(
    cls=Kind,
    name="dflash-doctor",
    help="Names the regression: why a tuned vLLM or SGLang server is slower today, and what to type next.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"dflash-doctor {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


app.command(cls=Page)(diagnosing.diagnose)
app.command(cls=Page)(checking.check)
app.command(cls=Page)(collecting.collect)
app.command(cls=Page)(bundling.bundle)
app.command(cls=Page)(comparing.ab)
app.command(cls=Page)(history.history)
app.command(cls=Page)(porting.port)
app.command(cls=Page)(explaining.explain)
app.command(cls=Page)(demonstrating.demo)
app.add_typer(baseline.app, name="baseline")
app.add_typer(loading.app, name="load")


def main() -> None:
    """The program."""
    app()
