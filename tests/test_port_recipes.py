"""Setups that people tuned and published for SGLang, as vLLM would run them; and the engines' own parsers on that.

`DFLASH_DOCTOR_VLLM` names a virtual environment with vLLM, `DFLASH_DOCTOR_WHEELS` a folder with wheels of SGLang (as
tests/port_flags.py leaves them); without them the tests that need them are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from engine_sources import parser_of, read
from porting import RECIPES, recipe, shell, side

from dflash_doctor.port import Launch, Ported, port
from dflash_doctor.port.snippets import argv

HERE = Path(__file__).parent
VENV = os.environ.get("DFLASH_DOCTOR_VLLM")
WHEELS = os.environ.get("DFLASH_DOCTOR_WHEELS")
RELEASE = "0.32.0"  # the recipes' expectations are those of this release


def tuned(path: Path):
    r = recipe(path)
    return side(r["launch"], f"sglang=={r['version']}")


def there(path: Path, version: str = RELEASE) -> Ported:
    return port(tuned(path), "vllm", version, gpu=recipe(path)["gpu"])


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_what_was_tuned_is_on_vllms_launch(path):
    text = shell(there(path))
    assert [words for words in recipe(path)["vllm"] if words not in text] == []


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_what_has_no_equivalent_is_said_and_nothing_else(path):
    p = there(path)
    assert sorted(r.key for r in p.of("no equivalent", "needs version")) == sorted(recipe(path).get("lost", []))
    assert all(r.why for r in p.of("no equivalent", "needs version", "risky", "unknown"))
    assert [w[0] for w in p.launch.unknown] == recipe(path).get("unknown", [])


def test_there_are_many_recipes():
    assert len(RECIPES) >= 20


def test_no_recipe_contradicts_itself():
    assert [c for path in RECIPES for c in there(path).clashes] == []


# -- the engines' own parsers -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vllm():
    """vLLM's own parser, on many command lines at once."""
    if not VENV:
        pytest.skip("DFLASH_DOCTOR_VLLM does not name a virtual environment with vLLM")
    python = Path(VENV) / "bin" / "python"
    version = subprocess.run(
        [python, "-c", "from importlib.metadata import version; print(version('vllm'))"],
        capture_output=True, text=True, check=True,
    ).stdout.split("+")[0].strip()  # fmt: skip

    def parse(lines: list[list[str]]) -> list[dict]:
        said = subprocess.run(
            [python, HERE / "vllm_parses.py"], input=json.dumps(lines), capture_output=True, text=True, check=False
        )
        assert said.returncode == 0, said.stderr[-2000:]
        found: list[dict] = json.loads(said.stdout.splitlines()[-1])
        return found

    return version, parse


@pytest.mark.engine
def test_vllm_accepts_the_launch_of_every_recipe(vllm):
    version, parse = vllm
    launches = {path.stem: argv(there(path, version).launch) for path in RECIPES}
    results = dict(zip(launches, parse(list(launches.values())), strict=True))
    refused = {name: r["error"] for name, r in results.items() if "error" in r}
    assert refused == {}
    mtp = results["qwen3.6-27b.a6000x2.mtp"]["parsed"]
    assert (mtp["tensor_parallel_size"], mtp["max_model_len"]) == ("2", "32768")
    assert "'method': 'mtp'" in mtp["speculative_config"]


@pytest.mark.engine
def test_vllm_refuses_what_it_does_not_know(vllm):
    _, parse = vllm
    wrong = [
        ["vllm", "serve", "/m", "--frobnicate"],
        ["vllm", "serve", "/m", "--kv-cache-dtype", "fp3"],
        ["vllm", "serve", "/m", "--speculative-config", '{"methud": "mtp"}'],
    ]
    assert all("error" in r for r in parse(wrong))


def wheels(pattern: str) -> list[Path | None]:
    return [*sorted(Path(WHEELS).glob(pattern))] if WHEELS else [None]


def name(wheel: Path | None) -> str:
    return "-".join(wheel.name.split("-")[:2]) if wheel else "none"


NONE = "DFLASH_DOCTOR_WHEELS does not name a folder with wheels, as tests/port_flags.py --cache leaves them"


@pytest.mark.parametrize("wheel", wheels("vllm*.whl"), ids=name)
def test_the_options_in_vllms_sources_accept_every_recipe(wheel):
    if wheel is None:
        pytest.skip(NONE)
    sources = read(wheel)
    parser = parser_of(sources)
    for path in RECIPES:
        launch = there(path, sources.version).launch
        args = parser.parse_args(argv(launch)[3:])
        for option, config in launch.configs.items():
            assert {f"{option}.{key}" for key in config} <= set(sources.keys), path.name
        assert args is not None


@pytest.mark.parametrize("wheel", wheels("sglang*.whl"), ids=name)
def test_the_options_in_sglangs_sources_accept_the_way_back(wheel):
    if wheel is None:
        pytest.skip(NONE)
    sources = read(wheel)
    parser = parser_of(sources)
    for path in RECIPES:
        back = port(started(there(path).launch), "sglang", sources.version)
        parser.parse_args(argv(back.launch)[3:])


def started(launch: Launch):
    """A server that runs this launch."""
    env = "".join(f"{k}={v}\n" for k, v in launch.env.items())
    quoted = "\0".join(argv(launch))
    return side(quoted, f"{launch.engine}=={launch.version}", environ=env)
