"""From the words of a command to the engine it starts, through everything that may stand in front of it.

`env A=1 numactl -N 0 docker run -e B=2 image vllm serve …`, `bash -c "…"`, `kubectl exec … --`, `nohup`, `srun`: what
matters is where the engine's own words begin, the variables set on the way, and which image it runs in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from dflash_doctor.parsers import shell

Role = Literal["server", "offline", "other", "client", "worker"]
RANK: dict[Role, int] = {"server": 0, "offline": 1, "other": 2, "client": 3, "worker": 4}
DEEPEST = 4  # shells within shells


@dataclass(frozen=True)
class Launch:
    """One engine that a command starts."""

    engine: str  # "vllm", "sglang", else the program's name
    role: Role
    argv: tuple[str, ...]  # the words after the program
    env: dict[str, str] = field(default_factory=dict)
    image: str | None = None
    bound: tuple[str, ...] = ()  # numactl or taskset with its options
    line: int = 1


MODULES: dict[str, tuple[str, Role]] = {
    "vllm.entrypoints.openai.api_server": ("vllm", "server"),
    "vllm.entrypoints.api_server": ("vllm", "server"),
    "vllm.entrypoints.grpc_server": ("vllm", "server"),
    "vllm.entrypoints.openai.run_batch": ("vllm", "offline"),
    "sglang.launch_server": ("sglang", "server"),
    "sglang.srt.server": ("sglang", "server"),
    "sglang.bench_offline_throughput": ("sglang", "offline"),
    "sglang.bench_one_batch": ("sglang", "offline"),
    "sglang.bench_serving": ("sglang", "client"),
    "sglang.bench_one_batch_server": ("sglang", "client"),
    "sglang_router.launch_router": ("sglang_router", "client"),
}
SCRIPTS: dict[str, tuple[str, Role]] = {
    "vllm/entrypoints/openai/api_server.py": ("vllm", "server"),
    "vllm/entrypoints/api_server.py": ("vllm", "server"),
    "sglang/launch_server.py": ("sglang", "server"),
    "benchmark_throughput.py": ("vllm", "offline"),
    "benchmark_latency.py": ("vllm", "offline"),
    "benchmark_serving.py": ("vllm", "client"),
    "bench_serving.py": ("sglang", "client"),
}
CONSOLE: dict[str, dict[str, Role]] = {
    "vllm": {"serve": "server", "bench": "offline", "run-batch": "offline", "chat": "client", "complete": "client"},
    "sglang": {"serve": "server", "generate": "offline", "bench": "client"},
}
# python -m vllm.entrypoints.cli.main serve …
CONSOLE_MODULES = {"vllm.entrypoints.cli.main": "vllm", "vllm": "vllm", "sglang.cli.main": "sglang", "sglang": "sglang"}
OTHERS = (
    "llama-server", "llama-cli", "llama-bench", "tokenspeed", "trtllm-serve", "lmdeploy", "text-generation-launcher",
    "mlc_llm", "ollama", "tritonserver", "mindie", "aphrodite", "tabbyapi", "lightllm", "dflash",
)  # fmt: skip
# names an engine gives its own child processes
WORKERS = re.compile(r"(?:VLLM::|vllm::|sglang::|sgl_diffusion::|ray::)")
SHELLS = ("bash", "sh", "zsh", "ash", "dash", "ksh")
CONTAINERS = ("docker", "podman", "nerdctl", "docker-compose", "lima", "finch")
BINDERS = ("numactl", "taskset")
_ASSIGNED = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)$", re.S)
# vllm/vllm-openai:v0.20.1, lmsysorg/sglang:v0.5.10-cu129
_IMAGE = re.compile(r"(?:^|/)(?P<engine>vllm|sglang)[\w.-]*(?::(?P<tag>[\w.-]+))?(?:@sha256:\w+)?$", re.I)
_RELEASE = re.compile(r"(?:vllm/vllm-openai|lmsysorg/sglang):v?(?P<version>\d+\.\d+\.\d+(?:\.post\d+|rc\d+)?)")


def launches(words: Sequence[str], line: int = 1, env: dict[str, str] | None = None, depth: int = 0) -> list[Launch]:
    """The engines that one command starts; none when it starts no engine we can tell."""
    known = dict(env or {})
    bound: tuple[str, ...] = ()
    for at, word in enumerate(words):
        name = _name(word)
        assigned = _ASSIGNED.match(word)
        if assigned and not word.startswith("-"):
            known[assigned["name"]] = assigned["value"]
            continue
        if WORKERS.match(word):
            return [Launch(word.split(":")[0].lower(), "worker", tuple(words[at + 1 :]), known, line=line)]
        if name in CONTAINERS and depth < DEEPEST:
            return _container(words[at + 1 :], line, known, depth)
        if name in SHELLS and depth < DEEPEST:
            inner = _shell_text(words[at + 1 :])
            if inner is not None:
                return _within(inner, line, known, depth)
        if name in BINDERS:
            bound = tuple(words[at : _binder_end(words, at)])
        started = _program(words, at)
        if started is not None:
            engine, role, end = started
            return [Launch(engine, role, tuple(words[end:]), known, bound=bound, line=line)]
        if depth < DEEPEST and " " in word and _mentions(word):
            found = _within(word, line, known, depth)
            if found:
                return found
    return []


def _program(words: Sequence[str], at: int) -> tuple[str, Role, int] | None:
    """The engine whose program stands here, and where its own words begin."""
    word, following = words[at], words[at + 1] if at + 1 < len(words) else ""
    name = _name(word)
    if word == "-m":
        if following in MODULES:
            return (*MODULES[following], at + 2)
        if following in CONSOLE_MODULES:
            return _console(CONSOLE_MODULES[following], words, at + 1)
        return None
    if name in CONSOLE:
        return _console(name, words, at)
    if word.endswith(".py"):
        script = next((s for s in SCRIPTS if word.endswith(s)), None)
        if script is not None:
            engine, role = SCRIPTS[script]
            return _backend(words, at, engine), role, at + 1
    if name in OTHERS:
        return name, "other", at + 2 if following in ("serve", "server", "run") else at + 1
    return None


def _console(name: str, words: Sequence[str], at: int) -> tuple[str, Role, int] | None:
    sub = words[at + 1] if at + 1 < len(words) else ""
    role = CONSOLE[name].get(sub)
    if role is None:
        return None
    if sub == "bench":
        kind = words[at + 2] if at + 2 < len(words) else ""
        offline = kind in ("throughput", "latency", "startup", "mm-processor", "offline")
        return name, "offline" if offline else "client", at + 3
    return name, role, at + 2


def _backend(words: Sequence[str], at: int, engine: str) -> str:
    """benchmark_throughput.py takes the engine as --backend."""
    rest = list(words[at:])
    named = [rest[i + 1] for i, w in enumerate(rest[:-1]) if w == "--backend"]
    named += [w.partition("=")[2] for w in rest if w.startswith("--backend=")]
    return named[-1] if named else engine


def _mentions(word: str) -> bool:
    return "vllm" in word or "sglang" in word or any(o in word for o in OTHERS)


def _within(text: str, line: int, env: dict[str, str], depth: int) -> list[Launch]:
    """The engines of a shell script given as one word; what it exports holds for what follows."""
    found: list[Launch] = []
    known = dict(env)
    for command in shell.read(text).commands:
        exported = exports(command.words)
        if exported:
            known.update(exported)
            continue
        found.extend(launches(command.words, line + command.line - 1, known, depth + 1))
    return found


def exports(words: Sequence[str]) -> dict[str, str]:
    """Variables that a line sets for the commands after it: `export A=1`, `A=1`, `declare -x A=1`."""
    rest = list(words)
    if rest and rest[0] in ("export", "declare", "typeset", "set", "setenv"):
        rest = [w for w in rest[1:] if not w.startswith("-")]
    assigned = [_ASSIGNED.match(w) for w in rest]
    return {a["name"]: a["value"] for a in assigned if a} if assigned and all(assigned) else {}


def _name(word: str) -> str:
    return word.rsplit("/", 1)[-1].removesuffix(".exe")


def _shell_text(rest: Sequence[str]) -> str | None:
    """What follows `-c` of a shell."""
    for i, word in enumerate(rest):
        if not word.startswith("-"):
            return None
        if not word.startswith("--") and "c" in word:
            return rest[i + 1] if i + 1 < len(rest) else None
    return None


def _binder_end(words: Sequence[str], at: int) -> int:
    end = at + 1
    while end < len(words) and (words[end].startswith("-") or re.fullmatch(r"[\d,x:a-f-]+|all", words[end])):
        end += 1
    return end


# -- containers -------------------------------------------------------------------------------------------------------

# options of docker run that take no value; all others do
BARE = ("--rm", "--init", "--privileged", "--read-only", "--detach", "--interactive", "--tty", "--publish-all",
        "--no-healthcheck", "--oom-kill-disable", "--quiet", "--replace", "--no-deps", "--service-ports")  # fmt: skip
_CLUSTER = re.compile(r"-[ditqPT]+$")
COMMANDS = ("run", "create", "exec")


def _container(rest: Sequence[str], line: int, env: dict[str, str], depth: int) -> list[Launch]:
    """`docker run [options] IMAGE words…`: the variables, the image and the words inside."""
    at = next((i for i, w in enumerate(rest) if w in COMMANDS), None)
    if at is None:
        return []
    inside: dict[str, str] = {}
    entry: list[str] = []
    at += 1
    while at < len(rest) and rest[at].startswith("-"):
        option, has_value, value = rest[at].partition("=")
        at += 1
        if rest[at - 1] == "--":
            break
        if not has_value and option not in BARE and not _CLUSTER.match(option):
            if option.startswith("-e") and option not in ("-e", "--entrypoint", "--env") and len(option) > 2:
                value, option = option[2:], "-e"  # -eNAME=VALUE
            else:
                value = rest[at] if at < len(rest) else ""
                at += 1
        if option in ("-e", "--env"):
            name, _, text = value.partition("=")
            inside[name] = text
        elif option.startswith("-e") and not option.startswith("--"):
            inside[option[2:]] = value
        elif option == "--gpus" and (chosen := _devices(value)):
            inside.setdefault("NVIDIA_VISIBLE_DEVICES", chosen)  # what the container runtime makes of it
        elif option == "--entrypoint":
            entry = list(shell.read(value).commands[0].words) if value.strip() else []
    image = rest[at] if at < len(rest) else ""
    words = [*entry, *rest[at + 1 :]]
    return in_image(image, words, inside, line, depth)


def _devices(value: str) -> str:
    """`"device=1,2"` -> `1,2`; nothing for `all` or a mere number of cards."""
    found = re.search(r"device=(?P<ids>[\w,:.-]+)", value)
    return found["ids"] if found else ""


def in_image(image: str, words: Sequence[str], env: dict[str, str], line: int, depth: int = 0) -> list[Launch]:
    """What starts when these words are given to a container; the image's own entry point when they name no program."""
    found = launches(words, line, env, depth + 1)
    official = _IMAGE.search(image)
    if not found and official and (not words or _arguments(words)):
        found = [Launch(official["engine"].lower(), "server", tuple(words), env, line=line)]
    return [replace(launch, image=launch.image or image or None) for launch in found]


def _arguments(words: Sequence[str]) -> bool:
    """Whether these are an engine's arguments, not a program of their own."""
    return words[0].startswith("-") or len(words) == 1 or words[1].startswith("-")


def release_of(image: str | None) -> str | None:
    """The engine version that the tag of an official image names."""
    found = _RELEASE.search(image or "")
    return found["version"] if found else None
