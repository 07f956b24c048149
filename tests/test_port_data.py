"""The map itself: its words exist, its sections know their settings, and the reader of engine sources reads."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import yaml
from engine_sources import UNKNOWN, parser_of, read

from dflash_doctor import paths
from dflash_doctor.port import tables
from dflash_doctor.settings import SETTINGS
from dflash_doctor.settings.versions import LOOKED_AT, at, covers

DATA = yaml.safe_load(paths.data("port.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("section", ["words", "choices", "hints", "warnings"])
def test_every_row_of_the_map_names_a_setting(section):
    assert [k for k in DATA[section] if k not in SETTINGS] == []


def test_held_and_card_bound_settings_exist():
    assert [k for k in DATA["hold"] if k not in SETTINGS] == []
    assert [r["key"] for r in DATA["cards"] if r["key"] not in SETTINGS] == []
    named = {k for r in DATA["clashes"] for k in (*r["when"], *r.get("with", ()), *r.get("above", {}))}
    assert sorted(named - set(SETTINGS)) == []


def test_every_word_a_translation_gives_is_accepted_by_some_release():
    lost = []
    for key, rows in DATA["words"].items():
        rows = DATA["words"][rows] if isinstance(rows, str) else rows
        for value, engines in rows.items():
            for engine, word in engines.items():
                accepted = [v for v in LOOKED_AT[engine] if tables.word(key, value, engine, v).text]
                if word is not None and not accepted:
                    lost.append((key, value, engine, word))
    assert lost == []


def test_a_word_for_some_releases_is_one_these_releases_accept():
    for key, rows in DATA["words"].items():
        for value, engines in {} if isinstance(rows, str) else rows.items():
            for engine, word in engines.items():
                for version in LOOKED_AT[engine] if isinstance(word, dict) else ():
                    known, text = at(word, version, engine)
                    if known and text and key in DATA["choices"]:
                        assert tables.word(key, value, engine, version).text == text, (key, value, engine, version)


def test_ranges_name_releases_that_were_looked_at():
    for key, engines in DATA["choices"].items():
        for engine, table in engines.items():
            for ranges in {} if isinstance(table, str) else table:
                ends = [v for part in ranges.split(",") for v in part.strip().split("..")]
                assert set(ends) <= set(LOOKED_AT[engine]), (key, ranges)
                assert covers(ranges, ends[0], engine), (key, ranges)


# -- the reader of sources ---------------------------------------------------------------------------------------------

VLLM = {
    "vllm/config/cache.py": """
from typing import Literal
CacheDType = Literal["auto", "fp8"]
class CacheConfig:
    gpu_memory_utilization: float = Field(default=0.92, gt=0)
    cache_dtype: CacheDType | str = "auto"
    enable_prefix_caching: bool = True
    sizes: list[int] | None = None
class SpeculativeConfig:
    method: Literal["mtp", "ngram"] | None = None
    depth: int = BASE + 1
""",
    "vllm/engine/arg_utils.py": """
class EngineArgs:
    def add_cli_args(parser):
        cache_kwargs = get_kwargs(CacheConfig)
        g = parser.add_argument_group()
        g.add_argument("--gpu-memory-utilization", **cache_kwargs["gpu_memory_utilization"])
        g.add_argument("--kv-cache-dtype", **{**cache_kwargs["cache_dtype"], "default": None})
        g.add_argument("--enable-prefix-caching", "-pc", **cache_kwargs["enable_prefix_caching"])
        g.add_argument("--sizes", **cache_kwargs["sizes"])
        g.add_argument("--speculative-config", type=json.loads, default=None)
""",
    "vllm/envs.py": 'VLLM_FAST: bool = True\nd = {"VLLM_FAST": lambda: 1, "VLLM_LATE": f}\n',
    "vllm/other.py": 'x = os.environ.get("NCCL_SOMETHING")\n',
}
SGLANG = {
    "sglang/srt/server_args.py": """
KINDS = ["a", "b"]
class ServerArgs:
    def add_cli_args(parser):
        parser.add_argument("--gone", action=DeprecatedAction, help="")
        parser.add_argument("--old", action="store_true")
""",
    "sglang/srt/arg_groups/fields/model.py": """
class Model:
    kind: A[str, Arg(help="", choices=KINDS, aliases=["--sort"], cli_name="--the-kind")] = "a"
    on: A[bool, "on"] = False
    many: A[Optional[List[int]], "several"] = None
    hidden: A[int, Arg(no_cli=True)] = 3
""",
    "sglang/srt/environ.py": "class Envs:\n    SGLANG_X = EnvBool(True)\n",
}


def wheel(tmp_path: Path, name: str, files: dict[str, str]) -> Path:
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as packed:
        for inside, text in files.items():
            packed.writestr(inside, text)
    return path


def test_vllms_options_are_the_fields_of_its_configuration_classes(tmp_path):
    s = read(wheel(tmp_path, "vllm-0.33.0-cp38-abi3-manylinux.whl", VLLM))
    assert (s.engine, s.version) == ("vllm", "0.33.0")
    assert s.options["--gpu-memory-utilization"].default == 0.92
    assert s.options["--kv-cache-dtype"].choices == ("auto", "fp8")
    assert s.options["-pc"].takes == "toggle" and s.options["--sizes"].takes == "several"
    assert s.keys["speculative_config.method"].choices == ("mtp", "ngram")
    assert s.keys["speculative_config.depth"].default is UNKNOWN, "an expression is not a value"
    assert s.variables["VLLM_FAST"] is True and "VLLM_LATE" in s.variables
    assert "NCCL_SOMETHING" in s.mentioned


def test_sglangs_options_are_annotated_fields_and_calls(tmp_path):
    s = read(wheel(tmp_path, "sglang-0.5.23-cp311-cp311-manylinux.whl", SGLANG))
    assert s.options["--sort"].flag == "--the-kind" and s.options["--the-kind"].choices == ("a", "b")
    assert s.options["--on"].takes == "switch" and s.options["--many"].takes == "several"
    assert s.options["--gone"].takes == "ignored" and "--hidden" not in s.options
    assert s.variables == {"SGLANG_X": True}


def test_a_parser_made_of_what_was_read_accepts_and_refuses_as_the_engine_does(tmp_path):
    import argparse

    parser = parser_of(read(wheel(tmp_path, "sglang-0.5.23-cp311-cp311-manylinux.whl", SGLANG)))
    args = parser.parse_args(["--the-kind", "b", "--on", "--many", "1", "2"])
    assert (args.the_kind, args.on, args.many) == ("b", True, ["1", "2"])
    with pytest.raises(argparse.ArgumentError):
        parser.parse_args(["--the-kind", "c"])
