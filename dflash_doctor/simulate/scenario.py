"""A scenario: everything one simulated serving host says and does, as data.

`scenarios/NAME.yaml` is merged over whatever it `extends:` (a name, or several, left to right): mappings deeply, lists
and numbers whole; null takes an inherited key away. So a fault is a few lines over a healthy host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from dflash_doctor.model import Refused

FOLDER = Path(__file__).parent / "scenarios"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class Weights(_Part):
    """A model on disk."""

    path: str
    config: dict[str, Any] = Field(default_factory=dict, description="its config.json")


class ServedModel(Weights):
    """The model and the name it is served under."""

    served: str | None = Field(default=None, description="name in /v1/models; the path when absent")
    context: int = 32768

    @property
    def name(self) -> str:
        return self.served or self.path


class Timing(_Part):
    """How long the engine takes."""

    prefill_tok_s: float = Field(gt=0)
    prefill_base_ms: float = Field(
        default=0.0, ge=0, description="the part of a prefill that does not grow with its tokens"
    )
    step_time_ms: dict[int, float] = Field(description="one number, or step time by number of running requests")
    context_ms_per_1k: float = Field(
        default=0.0, ge=0, description="added for every 1,000 tokens of context in the batch"
    )
    noise: float = Field(default=0.0, ge=0, lt=1, description="log-sigma between steps")
    boot_noise: float = Field(default=0.0, ge=0, lt=1, description="log-sigma between server starts")

    @field_validator("step_time_ms", mode="before")
    @classmethod
    def _one_number(cls, value: Any) -> Any:
        return {1: value} if isinstance(value, (int, float)) else value

    @field_validator("step_time_ms")
    @classmethod
    def _positive(cls, value: dict[int, float]) -> dict[int, float]:
        if not value or min(value) < 1 or min(value.values()) <= 0:
            raise ValueError("needs positive milliseconds for at least one number of running requests")
        return dict(sorted(value.items()))


class Falls(_Part):
    """Acceptance that falls once the context is longer than `after` tokens."""

    after: int
    to: float = Field(ge=0, le=1, description="what is left of each position's chance")


class Kind(_Part):
    """Prompts of one kind, recognised by their text, that are answered differently."""

    when: str = Field(description="regular expression searched in the prompt")
    chances: list[float] | None = Field(default=None, description="as in acceptance")
    length: float | None = Field(default=None, ge=1, description="as in acceptance")
    stop_after: int | None = Field(default=None, ge=1, description="output tokens after which the answer is complete")

    @field_validator("when")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as e:
            raise ValueError(f"is not a regular expression: {e}") from e
        return value


class Acceptance(_Part):
    """What becomes of the drafted tokens. Without it there is no speculation: one token a step."""

    depth: int = Field(ge=1, description="tokens drafted per verify step")
    chances: list[float] | None = Field(
        default=None, description="chance of each position once the ones before are accepted"
    )
    length: float | None = Field(default=None, ge=1, description="tokens per step instead, bonus token counted")
    spread: float = Field(default=0.0, ge=0, description="log-sigma between prompts; one prompt is alike in every run")
    falls: Falls | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Acceptance:
        if (self.chances is None) == (self.length is None):
            raise ValueError("give either chances or length")
        check_chances(self.chances, self.length, self.depth)
        return self


def check_chances(chances: list[float] | None, length: float | None, depth: int) -> None:
    """Raise ValueError when such an acceptance cannot be."""
    if chances is not None and (not chances or not all(0 <= c <= 1 for c in chances)):
        raise ValueError("chances are between 0 and 1, one per position (the last goes on)")
    if length is not None and length > depth + 1:
        raise ValueError(f"with depth {depth} the length is at most {depth + 1}")


class Traffic(_Part):
    """Requests of other people: in the log before we came, or running while we look."""

    concurrency: int = Field(default=1, ge=1)
    input_tokens: int = Field(default=160, ge=1)
    output_tokens: int = Field(default=400, ge=1)
    seconds: float = Field(default=0.0, ge=0, description="how long it went on (history only)")
    idle_s: float = Field(default=0.0, ge=0, description="quiet time after it (history only)")


class Log(_Part):
    """The engine's log: the text of its start, then the periodic lines of what is really served."""

    path: str | None = Field(default=None, description="file on the host; None: the container runtime keeps it")
    start: dict[str, str] = Field(default_factory=dict, description="named pieces; $tN is N s after the start")
    ready: dict[str, str] = Field(default_factory=dict, description="what follows when the server comes up")
    values: dict[str, Any] = Field(default_factory=dict, description="what $name in these texts stands for")
    start_s: float = Field(default=120.0, ge=0, description="how long the start took")
    interval_s: float = Field(default=10.0, gt=0, description="vLLM: seconds between summary lines")
    decode_steps: int = Field(default=40, ge=1, description="SGLang: decode steps between decode-batch lines")
    graph: bool = Field(default=True, description="SGLang: what the `cuda graph` field of those lines says")
    before: str = Field(default="", description="text of earlier starts in the same file")


class Gpu(_Part):
    """Values by their names in `nvidia-smi --help-query-gpu`; null is a value that is not supported."""

    each: dict[str, Any] = Field(default_factory=dict)
    idle: dict[str, Any] = Field(default_factory=dict)
    load: dict[str, Any] = Field(default_factory=dict)
    rates: dict[str, float] = Field(default_factory=dict, description="counters: growth per second under load")


class Process(_Part):
    """A process that holds GPU memory besides the engine."""

    gpu: int
    pid: int
    name: str
    used_memory: int


class Gpus(Gpu):
    count: int = Field(default=1, ge=0)
    driver: str = "580.95.05"
    cuda: str = "13.0"
    jitter: float = Field(
        default=0.01, ge=0, lt=1, description="relative wander of power, temperature and use under load"
    )
    only: dict[int, Gpu] = Field(default_factory=dict, description="what one GPU has different, by index")
    processes: list[Process] = Field(default_factory=list)


class Machine(_Part):
    """The machine under the engine."""

    hostname: str = "gpu-a"
    python: bool = Field(default=True, description="whether a shell on the host finds a python3")
    kernel: str = "6.8.0-71-generic"
    cpu_model: str = "AMD EPYC 7443P 24-Core Processor"
    cpus: int = Field(default=48, ge=1)
    sockets: int = Field(default=1, ge=1)
    numa_nodes: int = Field(default=1, ge=1)
    mhz: float = 2850.0
    max_mhz: float = 4035.0
    governor: str = "performance"
    memory_gib: float = 256.0
    load: list[float] = Field(default_factory=lambda: [1.2, 1.1, 1.0])
    affinity: str | None = Field(default=None, description="Cpus_allowed_list of the engine; all CPUs when absent")
    cpu_max: str = Field(default="max 100000", description="cgroup quota of the engine")
    throttled: float = Field(default=0.0, ge=0, le=1, description="share of the scheduler's periods cut off under load")
    # vLLM's and SGLang's workers poll: one core each under load
    cpu_api: float = Field(default=0.12, ge=0, description="cores that the API server uses under load")
    cpu_core: float = Field(default=0.65, ge=0, description="cores of the engine core (SGLang: the detokenizer)")
    cpu_worker: float = Field(default=1.0, ge=0, description="cores of each worker")


class Fails(_Part):
    """A server that does not come up: what it said last. Nobody listens on its port."""

    text: str
    exit_code: int = 1
    process: Literal["gone", "hangs"] = Field(
        default="gone", description="hangs: its first processes are still there, as long as nobody ends them"
    )


class Scenario(_Part):
    """One simulated serving host."""

    about: str
    seed: int = 1
    engine: Literal["vllm", "sglang"]
    version: str
    model: ServedModel
    drafter: Weights | None = Field(default=None, description="a drafter with a folder of its own")
    entrypoint: list[str] = Field(description="how the server is launched, before its flags; $model is the path")
    flags: dict[str, Any] = Field(default_factory=dict, description="launch flags by long name, without the dashes")
    effective: dict[str, Any] = Field(default_factory=dict, description="what the engine says that it resolved")
    environ: dict[str, str] = Field(default_factory=dict)
    packages: dict[str, str] = Field(default_factory=dict)
    tp: int = Field(default=1, ge=1)
    timing: Timing
    acceptance: Acceptance | None = None
    kinds: dict[str, Kind] = Field(default_factory=dict)
    kv_tokens: int = Field(gt=0)
    max_seqs: int = Field(default=256, ge=1)
    max_tokens: int = Field(default=8192, ge=1, description="tokens of one scheduling step: prefills are cut to it")
    prefix_cache: bool = True
    page_size: int = Field(default=16, ge=1)
    history: list[Traffic] = Field(default_factory=list)
    traffic: Traffic | None = None
    log: Log = Field(default_factory=Log)
    gpus: Gpus = Field(default_factory=Gpus)
    topology: str = ""
    dmesg: str = ""
    machine: Machine = Field(default_factory=Machine)
    container: str | None = Field(default=None, description="name of the container it runs in; None: a plain process")
    fails: Fails | None = None

    @model_validator(mode="after")
    def _kinds_fit(self) -> Scenario:
        for name, kind in self.kinds.items():
            if self.acceptance is None and (kind.chances or kind.length):
                raise ValueError(f"kind {name} has an acceptance, the scenario has none")
            if self.acceptance is not None:
                check_chances(kind.chances, kind.length, self.acceptance.depth)
        return self


class Raw(str):
    """Text that goes into a Python repr as it stands (`!raw` in the YAML): None, an enum, an object."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Loader(yaml.SafeLoader):
    """YAML with `!raw`."""


def _raw(loader: yaml.SafeLoader, node: yaml.Node) -> Raw:
    return Raw(node.value)


Loader.add_constructor("!raw", _raw)


def names() -> list[str]:
    """The shipped scenarios."""
    return sorted(p.stem for p in FOLDER.glob("*.yaml"))


def load(scenario: str | Path) -> Scenario:
    """A scenario by its name, or from a YAML file."""
    path = _find(str(scenario), None)
    merged = _merged(path, ())
    try:
        return Scenario.model_validate(merged)
    except ValidationError as e:
        wrong = "; ".join(f"{'.'.join(str(p) for p in w['loc']) or 'scenario'}: {w['msg']}" for w in e.errors()[:5])
        raise Refused(f"scenario {path}: {wrong}") from e


def vary(scenario: Scenario, **changes: Any) -> Scenario:
    """The same scenario with some of it changed, merged as `extends:` does."""
    # by field, not model_dump: `!raw` texts stay what they are
    return Scenario.model_validate(merge(_plain(scenario), changes))


def _plain(part: Any) -> Any:
    if isinstance(part, BaseModel):
        return {name: _plain(getattr(part, name)) for name in type(part).model_fields}
    if isinstance(part, dict):
        return {k: _plain(v) for k, v in part.items()}
    return part


def merge(under: Mapping[Any, Any], over: Mapping[Any, Any]) -> dict[Any, Any]:
    """`over` laid on `under`: mappings deeply, anything else whole; None takes a key of `under` away."""
    merged = dict(under)
    for key, value in over.items():
        if value is None and merged.get(key) is not None:
            del merged[key]
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def _find(name: str, beside: Path | None) -> Path:
    if name.endswith((".yaml", ".yml")):
        candidates = [Path(name)] if beside is None else [beside / name, FOLDER / name]
    else:
        candidates = ([] if beside is None else [beside / f"{name}.yaml"]) + [FOLDER / f"{name}.yaml"]
    for path in candidates:
        if path.is_file():
            return path
    raise Refused(f"there is no scenario {name!r}; there are {', '.join(names())}, or give a .yaml file")


def _merged(path: Path, seen: tuple[Path, ...]) -> dict[Any, Any]:
    if path in seen:
        raise Refused(f"scenario {path} extends itself, through {' and '.join(p.name for p in seen)}")
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader)  # a SafeLoader with !raw added
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as e:
        raise Refused(f"scenario {path} cannot be read: {e}") from e
    if not isinstance(content, dict):
        raise Refused(f"scenario {path} is not a mapping")
    extends = content.pop("extends", [])
    under: dict[Any, Any] = {}
    for name in [extends] if isinstance(extends, str) else extends:
        under = merge(under, _merged(_find(str(name), path.parent), (*seen, path)))
    return merge(under, content)
