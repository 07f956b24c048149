"""JSON and YAML as hosts and people write them: a value, or Unreadable with the place of the mistake."""

from __future__ import annotations

import json
from typing import Any

import yaml

from dflash_doctor.model import Unreadable
from dflash_doctor.parsers.texts import refuse_binary

LONGEST_YAML = 1_000_000  # characters; the reader takes ten seconds a megabyte, and notes are never that long


def read_json(text: str, what: str) -> Any:
    """One JSON value; NaN and Infinity are read, since Python's own writer prints them."""
    refuse_binary(text, what)
    try:
        return json.loads(text)
    except json.JSONDecodeError as e:
        raise Unreadable(f"not JSON: {e.msg} in line {e.lineno}, column {e.colno}") from e
    except ValueError as e:  # a number of thousands of digits
        raise Unreadable(f"not JSON: {str(e)[:200]}") from e
    except RecursionError as e:
        raise Unreadable("JSON nested deeper than anything an engine or a person writes") from e


def read_json_lines(text: str, what: str) -> list[tuple[int, Any]]:
    """One JSON value, or one a line: with the line each begins in. A last line that was cut off is left out."""
    try:
        return [(1, read_json(text, what))]
    except Unreadable as whole:
        found = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                found.append((number, json.loads(line)))
            except (ValueError, RecursionError):
                if number == 1:
                    raise whole from None
        if not found:
            raise
        return found


def compose_yaml(text: str, what: str) -> tuple[Any, yaml.Node | None]:
    """The value of a YAML text and its nodes, which know their lines."""
    refuse_binary(text, what)
    if len(text) > LONGEST_YAML:
        raise Unreadable(f"{len(text):,} characters are more than notes in YAML ever have")
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        return (None if node is None else loader.construct_document(node)), node
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        where = f" in line {mark.line + 1}" if mark else ""
        raise Unreadable(f"not YAML: {e.problem or e.context}{where}") from e
    except yaml.YAMLError as e:
        raise Unreadable(f"not YAML: {' '.join(str(e).split())[:200]}") from e
    except RecursionError as e:
        raise Unreadable("YAML nested deeper than anything a person writes") from e
    except (ValueError, OverflowError, TypeError, AttributeError, LookupError) as e:
        # its resolver takes 2026-13-45 for a date and 0b for a number, and trips over both
        raise Unreadable(f"not YAML: {str(e)[:200] or type(e).__name__}") from e
