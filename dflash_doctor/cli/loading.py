"""`load export`: stored load rounds in the form that other tools' dashboards read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dflash_doctor.cli import options as o
from dflash_doctor.cli.pages import Page
from dflash_doctor.cli.streams import put
from dflash_doctor.model import Refused

app = typer.Typer(help="Hand stored load rounds on to other tools.", no_args_is_help=True)
FORMS = ("vllm-bench",)
_form, _forms = o.one_of("--as", FORMS)


@app.callback()
def _root() -> None:
    """Hand stored load rounds on to other tools."""


@app.command(cls=Page)
def export(
    capture: Annotated[
        Path, typer.Argument(metavar="CAPTURE|FILE", help="A capture's folder, or its load.json.", show_default=False)
    ],
    form: Annotated[
        str,
        typer.Option(
            "--as", metavar="NAME", callback=_form, autocompletion=_forms,
            help="vllm-bench: what `vllm bench serve --save-result` writes, one round a line.",
        ),
    ] = "vllm-bench",
) -> None:  # fmt: skip
    """Print load rounds as another tool writes its own."""
    from pydantic import ValidationError

    from dflash_doctor.formats.load import LoadFile
    from dflash_doctor.load.exporting import vllm_bench

    path = capture / "load.json" if capture.is_dir() else capture
    try:
        file = LoadFile.model_validate_json(path.read_bytes())
    except FileNotFoundError as e:
        raise Refused(f"there is no load.json in {capture}: the load rounds of a capture are what is exported") from e
    except OSError as e:
        raise Refused(f"{path} cannot be read: {e.strerror}") from e
    except ValidationError as e:
        raise Refused(f"{path} has no load rounds of ours") from e
    put("".join(json.dumps(result) + "\n" for result in vllm_bench(file)))
