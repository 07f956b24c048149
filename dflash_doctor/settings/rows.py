"""The rows of data/settings.yaml: what a setting is called in each engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal

from dflash_doctor import paths
from dflash_doctor.settings.versions import covers

Kind = Literal["int", "float", "bool", "word", "str", "list", "sizes"]
UNSET = object()
ENGINE_VARIABLES = ("VLLM_", "SGLANG_", "SGL_")


@dataclasses.dataclass(frozen=True)
class Spelling:
    """One way to write a setting in one engine: a flag, an environment variable or a key of a JSON option."""

    engine: str
    flag: str | None = None
    env: str | None = None
    json: str | None = None  # dotted: speculative_config.method
    aliases: tuple[str, ...] = ()
    versions: str | None = None  # first..last of the releases looked at
    field: str | None = None  # name in the engine's argument object, when it is not that of the flag
    config: str | None = None  # the class it sits in
    also: tuple[str, ...] = ()  # other names the engine prints it under
    default: Any = UNSET  # UNSET: not known; None: resolved at start; {versions: value}
    on_is: Any = UNSET  # what the switch stands for when on, and when off
    off_is: Any = UNSET
    words: Mapping[Any, Any] = dataclasses.field(default_factory=dict)
    port: str | None = None
    note: str = ""

    def acts(self, version: str | None) -> bool | None:
        """Whether this version reads it; None when that is not known."""
        if self.env and not self.env.startswith(ENGINE_VARIABLES):
            return True  # read by a library, whatever the engine's own source says of it
        return covers(self.versions, version, self.engine)

    @property
    def switch(self) -> bool:
        """Whether it stands for a value instead of taking one."""
        return self.on_is is not UNSET or self.off_is is not UNSET

    @property
    def written(self) -> str:
        """As a person types it."""
        if self.json:
            option, _, rest = self.json.partition(".")
            return f"--{option.replace('_', '-')}.{rest}"
        return self.flag or self.env or ""

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it has in a dict of arguments, with underscores."""
        flags = [bare(f) for f in (self.flag, *self.aliases) if f and f.startswith("--")]
        return tuple(dict.fromkeys(n for n in (self.field, self.json, *flags, *self.also) if n))


@dataclasses.dataclass(frozen=True)
class SettingRow:
    """One tuning knob."""

    key: str
    title: str
    kind: Kind = "str"
    port: str = ""  # the concept of data/concepts.yaml that it is a part of
    speed: float = 0.0
    same: str = "value"  # how two values are compared
    words: Mapping[str, str] = dataclasses.field(default_factory=dict)  # spelling in lower case -> neutral word
    none: Any = UNSET  # what an explicit None says
    vllm: tuple[Spelling, ...] = ()
    sglang: tuple[Spelling, ...] = ()

    def spellings(self, engine: str) -> tuple[Spelling, ...]:
        """How this engine writes it."""
        return {"vllm": self.vllm, "sglang": self.sglang}.get(engine, ())


def bare(flag: str) -> str:
    """`--max-num-seqs` -> `max_num_seqs`."""
    return flag.lstrip("-").replace("-", "_")


# -- loading ----------------------------------------------------------------------------------------------------------


@cache
def _file() -> Any:
    import yaml  # 40 ms that only the first use pays

    # the pure Python loader takes a second for a file of this size, libyaml 0.05 s
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(paths.data("settings.yaml").read_text(encoding="utf-8"), Loader=loader)


@cache
def _rows() -> dict[str, SettingRow]:
    raw: dict[str, Any] = _file()["settings"]
    rows: dict[str, SettingRow] = {}
    for key, r in raw.items():
        rows[key] = _row(key, r, raw)
    return rows


def _row(key: str, r: dict[str, Any], raw: dict[str, Any]) -> SettingRow:
    words = r.get("words") or {}
    if isinstance(words, str):
        words = raw[words]["words"]
    return SettingRow(
        key=key,
        title=r["title"],
        kind=r["kind"],
        port=r.get("port", ""),
        speed=float(r["speed"]),
        same=r.get("same", "value"),
        words={spelled: word for word, spellings in words.items() for spelled in (word, *spellings)},
        none=r.get("none", UNSET),
        vllm=tuple(_spelling("vllm", s) for s in r.get("vllm", ())),
        sglang=tuple(_spelling("sglang", s) for s in r.get("sglang", ())),
    )


def _spelling(engine: str, s: dict[str, Any]) -> Spelling:
    given = dict(s)
    for several in ("aliases", "also"):
        given[several] = tuple(s.get(several, ()))
    return Spelling(engine=engine, **given)


class _Settings(Mapping[str, SettingRow]):
    """All rows by key, read from disk at first use so that importing costs nothing."""

    def __getitem__(self, key: str) -> SettingRow:
        return _rows()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(_rows())

    def __len__(self) -> int:
        return len(_rows())


SETTINGS: Mapping[str, SettingRow] = _Settings()

Spelled = tuple[SettingRow, Spelling]


@cache
def by_name(engine: str) -> Mapping[str, Spelled]:
    """Argument and configuration names of one engine, with underscores."""
    found: dict[str, Spelled] = {}
    for row in _rows().values():
        for s in row.spellings(engine):
            for name in s.names:
                found.setdefault(name, (row, s))
    return found


@cache
def by_flag(engine: str) -> Mapping[str, Spelled]:
    """Flags of one engine, short ones too."""
    found: dict[str, Spelled] = {}
    for row in _rows().values():
        for s in row.spellings(engine):
            for flag in (s.flag, *s.aliases):
                if flag:
                    found.setdefault(flag, (row, s))
    return found


@cache
def by_variable(engine: str) -> Mapping[str, Spelled]:
    """Environment variables of one engine."""
    return {s.env: (row, s) for row in _rows().values() for s in row.spellings(engine) if s.env}


@cache
def switches(engine: str) -> frozenset[str]:
    """Flags that take no value."""
    known = {f for f, (row, _) in by_flag(engine).items() if row.kind == "bool"}
    stand_for = {f for f, (_, s) in by_flag(engine).items() if s.switch}
    return frozenset(known | stand_for | set(_file()["switches"].get(engine, ())))


@cache
def several(engine: str) -> frozenset[str]:
    """Flags that take several words and are no row."""
    return frozenset(_file()["several"].get(engine, ()))


# -- how much it matters ----------------------------------------------------------------------------------------------

# what is no row: facts of compare.py, packages, variables and knobs nobody knows
_FAMILIES = {
    "engine.name": 0.9,
    "engine.version": 0.8,
    "gpu.name": 1.0,
    "gpu.count": 0.9,
    "gpu.driver": 0.4,
    "gpu.power.limit": 0.7,
    "gpu": 0.5,
    "package.vllm": 0.8,
    "package.sglang": 0.8,
    "package.torch": 0.6,
    "package.torch_npu": 0.6,
    "package.triton": 0.6,
    "package.vllm_ascend": 0.7,
    "package.amd_aiter": 0.6,
    "package.sgl_kernel": 0.6,
    "package.sglang_kernel": 0.6,
    "package.flash_attn": 0.6,
    "package.flash_attn_4": 0.6,
    "package.flashinfer_python": 0.6,
    "package.flashinfer_cubin": 0.5,
    "package.flashinfer_jit_cache": 0.5,
    "package.deep_gemm": 0.5,
    "package.nvidia_cutlass_dsl": 0.5,
    "package.nvidia_nccl_cu12": 0.5,
    "package.nvidia_nccl_cu13": 0.5,
    "package.nvidia_cublas_cu12": 0.4,
    "package.nvidia_cudnn_cu12": 0.3,
    "package.compressed_tensors": 0.3,
    "package.transformers": 0.3,
    "package.xformers": 0.3,
    "package.xgrammar": 0.2,
    "package": 0.1,
    "host.governor": 0.5,
    "host.cgroup.cpu_max": 0.7,
    "host.virt": 0.5,
    "host.cpus": 0.4,
    "host.uname": 0.2,
    "host": 0.3,
    "env.NCCL_P2P_DISABLE": 0.9,
    "env.NCCL_P2P_LEVEL": 0.7,
    "env.NCCL_SHM_DISABLE": 0.8,
    "env.NCCL_IB_DISABLE": 0.8,
    "env.NCCL_DEBUG": 0.1,
    "env.LD_PRELOAD": 0.5,
    "env.LD_LIBRARY_PATH": 0.4,
    "env.HF_HUB_OFFLINE": 0.0,
    "env": 0.3,
    "other": 0.1,
}


def speed_weight(key: str) -> float:
    """0..1: how likely a drift of this setting moves the decode speed."""
    row = _rows().get(key)
    if row is not None:
        return row.speed
    name = key.replace("-", "_") if key.startswith("package.") else key
    while name:
        if name in _FAMILIES:
            return _FAMILIES[name]
        name = name.rpartition(".")[0]
    return 0.2
