"""How `--help` looks: arguments, what most people need, then the rest in named groups."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from dflash_doctor.cli.options import KEEP, LOAD, REACH

GROUPS = ("Arguments", "Options", LOAD, REACH, KEEP)


class Page(TyperCommand):
    """A command whose options stand in groups. (Typer groups them only inside boxes, which cannot be copied.)"""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in GROUPS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            argument = param.param_type_name == "argument"
            name = "Arguments" if argument else getattr(param, "rich_help_panel", None) or "Options"
            groups[name].append(record)
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)
