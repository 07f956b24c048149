"""The house holds to its drawing: imports point one way, every rule has its page and its tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dflash_doctor import rules
from dflash_doctor.causes import causes

PACKAGE = Path(__file__).parent.parent / "dflash_doctor"
NOUNS = {
    "__init__", "model", "metrics", "settings", "stats", "physics", "paths", "causes", "gpu_words", "formats",
    "known_issues",
}  # fmt: skip
STAGES = {
    "hosts", "collect", "load", "parsers", "parse", "compare", "rules", "diagnose", "baselines", "port", "history",
    "fleet", "report", "simulate", "bundle",
}  # fmt: skip
MAY = {"parse": {"parsers"}, "diagnose": {"rules"}}  # the two loops that call their family
SECTIONS = ("What it sees", "Why it costs you", "How to confirm", "What usually did it", "When it is wrong")


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dflash_doctor":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {a.name for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("dflash_doctor.")}
    return found


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_follow_the_drawing(path):
    room, theirs = room_of(path), imported_rooms(path)
    theirs -= {room, "__version__"}
    if room in ("cli", "__main__"):
        return
    if room in NOUNS:
        assert theirs <= NOUNS, f"a noun knows nobody, but {room} imports {theirs - NOUNS}"
    else:
        assert room in STAGES, f"{room} has no place in the drawing"
        assert theirs <= NOUNS | MAY.get(room, set()), f"{room} imports another stage: {theirs - NOUNS}"


def test_every_rule_names_a_cause_of_the_vocabulary():
    assert set(rules.NAMES) <= set(causes())
    assert list(rules.NAMES) == sorted(set(rules.NAMES), key=list(causes()).index), "in the order of causes.yaml"


def test_every_rule_file_is_announced():
    files = {f"{p.parent.name}.{p.stem}" for p in (PACKAGE / "rules").glob("*/*.py") if p.stem != "__init__"}
    assert files == set(rules.NAMES)


@pytest.mark.parametrize("cause", rules.NAMES)
def test_every_rule_is_a_page(cause):
    doc = rules.module(cause).__doc__ or ""
    assert re.findall(r"^## (.+)$", doc, re.M) == list(SECTIONS)
    title = doc.strip().splitlines()[0]
    assert title.endswith("."), "the first line is the fault, said aloud"
    for section in re.split(r"^## .+$", doc, flags=re.M)[1:]:
        assert len(section.split()) >= 8, "a section says something"


@pytest.mark.parametrize("cause", rules.NAMES)
def test_every_rule_has_a_case_it_names_and_one_where_it_is_silent(cause):
    family, fault = cause.split(".")
    path = Path(__file__).parent / "rules" / f"test_{family}_{fault}.py"
    assert path.exists(), f"{path.name} is missing"
    assert path.read_text(encoding="utf-8").count("def test_") >= 2
