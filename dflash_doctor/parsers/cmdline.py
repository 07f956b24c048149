r"""`cmdline`: how the server was started. One value stands for one flag as somebody asked for it.

As /proc/PID/cmdline has it (words ended by NUL), as a person types it, as `docker run …`, a compose or Kubernetes file:

    vllm serve /models/Qwen3.6-27B --tensor-parallel-size 2 \
        --speculative-config '{"method":"dflash","model":"/models/Qwen3.6-27B-DFlash","num_speculative_tokens":15}'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dflash_doctor import settings
from dflash_doctor.model import Evidence, Facts, Gap, Setting, Unreadable
from dflash_doctor.parsers import shell
from dflash_doctor.parsers.launch import RANK, Launch, exports, in_image, launches, release_of
from dflash_doctor.parsers.texts import refuse_binary

READS: tuple[str, ...] = ("cmdline", "cmdline.txt")

SHOWN = 300  # characters of a word in evidence
# engines whose flags are those of another
LIKE = {"vllm": "vllm", "sglang": "sglang", "tokenspeed": "sglang", "aphrodite": "vllm"}
# llama.cpp and its kin: the few flags that mean what a row means
LLAMA = {
    "m": "model.path", "model": "model.path", "md": "spec.draft_model", "model_draft": "spec.draft_model",
    "c": "mem.max_context", "ctx_size": "mem.max_context", "draft_max": "spec.depth", "draft": "spec.depth",
    "np": "sched.max_seqs", "parallel": "sched.max_seqs", "ctk": "kv.dtype", "cache_type_k": "kv.dtype",
}  # fmt: skip


def parse(text: str, source: str) -> Facts:
    """The settings a launch asks for."""
    refuse_binary(text, "a command line", nul=True)
    gaps: list[Gap] = []
    if len(text) > shell.LONGEST:
        gaps.append(Gap(source, f"only the first {shell.LONGEST} characters were read"))
    found = sorted(_launches(text[: shell.LONGEST], source, gaps), key=lambda launch: RANK[launch.role])
    if not found:
        first = text[:4000].replace("\0", " ").split(None, 1)[0][:80]
        raise Unreadable(f"no vLLM, SGLang or other known server is started here (it begins with {first})")
    launch = found[0]
    if launch.role in ("client", "worker"):
        return Facts(gaps=(*gaps, Gap(source, f"this is a {launch.role}'s command line, not the server's")))
    others = [x for x in found[1:] if x.role == launch.role and x.argv != launch.argv]
    if others:
        gaps.append(Gap(source, f"{len(others) + 1} servers are started here; the first one was read"))
    return Facts(
        engine=launch.engine if launch.engine in ("vllm", "sglang") else "other",
        version=release_of(launch.image),
        settings=_settings(launch, source),
        host={"image": launch.image} if launch.image else {},
        gaps=tuple(gaps),
    )


# -- where the words are ----------------------------------------------------------------------------------------------


def _launches(text: str, source: str, gaps: list[Gap]) -> list[Launch]:
    if "\0" in text:
        # one process after another: each ends with a NUL and a line break
        return [x for words in _processes(text) for x in launches(words)]
    described = _yaml(text)
    if described is not None:
        return described
    read = shell.read(text)
    if read.unclosed:
        gaps.append(Gap(source, "a quote is never closed: what follows it was read as one word"))
    found: list[Launch] = []
    env: dict[str, str] = {}
    for command in read.commands:
        exported = exports(command.words)
        if exported:
            env.update(exported)
        else:
            found.extend(launches(command.words, command.line, env))
    if not found:
        words = [w for c in read.commands for w in c.words]
        if words and words[0].startswith("-"):
            found = _bare_flags(words)
    return found


def _processes(text: str) -> Iterator[list[str]]:
    for process in re.split(r"\0\r?\n", text):
        words = [w for w in process.strip("\r\n").split("\0") if w]
        if len(words) == 1 and " " in words[0]:
            words = [w for c in shell.read(words[0]).commands for w in c.words]  # a process that renamed itself
        if words:
            yield words


def _bare_flags(words: Sequence[str]) -> list[Launch]:
    """Arguments alone, as in SGLang's `launch_command`: whose they are is told by their names."""
    typed = {w.partition("=")[0] for w in words if w.startswith("--")}
    known = {e: sum(any(f in (s.flag, *s.aliases) for r in settings.SETTINGS.values() for s in r.spellings(e))
                    for f in typed) for e in ("vllm", "sglang")}  # fmt: skip
    engine = max(known, key=lambda e: known[e])
    return [Launch(engine, "server", tuple(words))] if known[engine] else []


# -- compose, Kubernetes, docker inspect ------------------------------------------------------------------------------

_LOOKS_YAML = re.compile(
    r"^[ \t]*(?:-[ \t]+)?[\"']?(?:command|args|entrypoint|image|Cmd|Args)[\"']?[ \t]*:|^[ \t]*-[ \t]+\S|^[ \t]*\[", re.M
)
_NESTED = re.compile(r"(?:[-?:] ){20}")
DEEPEST = 40


def _yaml(text: str) -> list[Launch] | None:
    """Launches of a compose file, a pod, a list of words or `docker inspect`; None when the text is none of these."""
    if not _LOOKS_YAML.search(text) or _too_deep(text):
        return None
    import yaml

    try:
        documents = list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        return None
    if any(isinstance(d, str) for d in documents):
        return None
    found: list[Launch] = []
    for document in documents:
        if isinstance(document, list) and document and all(isinstance(w, (str, int, float)) for w in document):
            words = [str(w) for w in document]
            found.extend(launches(words) or _bare_flags(words))
        else:
            found.extend(x for c in _containers(document, set()) for x in _started(c))
    return found or None


def _too_deep(text: str) -> bool:
    """Whether nesting would exhaust the loader."""
    depth = deepest = 0
    for mark in re.finditer(r"[\[{\]}]", text):
        depth += 1 if mark[0] in "[{" else -1
        deepest = max(deepest, depth)
    indent = max((len(m[0]) for m in re.finditer(r"^[ ]+", text, re.M)), default=0)
    return deepest > DEEPEST or indent > 200 or bool(_NESTED.search(text))


def _containers(node: Any, seen: set[int]) -> Iterator[Mapping[str, Any]]:
    """Every mapping that describes a container, each once however often it is referred to."""
    if not isinstance(node, (dict, list)) or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, dict):
        if any(k in node for k in ("command", "args", "entrypoint", "Cmd", "Args")):
            yield node
        for value in node.values():
            yield from _containers(value, seen)
    else:
        for value in node:
            yield from _containers(value, seen)


def _started(container: Mapping[str, Any]) -> list[Launch]:
    # Kubernetes: command replaces the image's entry point, args are its words; compose: entrypoint and command
    keys = ("entrypoint", "Entrypoint", "Path", "command", "Cmd", "args", "Args")
    words = [w for key in keys for w in _words(container.get(key))]
    image = container.get("image") or container.get("Image") or ""
    env: dict[str, str] = {}
    for key in ("environment", "env", "Env"):
        env.update(_environment(container.get(key)))
    if chosen := _reserved(container.get("deploy")):
        env.setdefault("NVIDIA_VISIBLE_DEVICES", chosen)
    return in_image(str(image), words, env, 1) or (_bare_flags(words) if words and words[0].startswith("-") else [])


def _reserved(deploy: Any) -> str:
    """Cards that a compose file reserves: deploy.resources.reservations.devices[].device_ids."""
    for key in ("resources", "reservations"):
        deploy = deploy.get(key) if isinstance(deploy, dict) else None
    devices = deploy.get("devices") if isinstance(deploy, dict) else None
    ids = [d.get("device_ids") for d in devices if isinstance(d, dict)] if isinstance(devices, list) else []
    return ",".join(str(i) for chosen in ids if isinstance(chosen, list) for i in chosen)


def _words(value: Any) -> list[str]:
    if isinstance(value, str):
        return [w for c in shell.read(value).commands for w in c.words]
    return [str(w) for w in value if w is not None] if isinstance(value, list) else []


def _environment(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {str(k): _text(v) for k, v in value.items() if v is not None}
    found = {}
    for item in value if isinstance(value, list) else ():
        if isinstance(item, str):
            name, _, text = item.partition("=")
            found[name] = text
        elif isinstance(item, dict) and item.get("name") and item.get("value") is not None:
            found[str(item["name"])] = _text(item["value"])
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# -- settings ---------------------------------------------------------------------------------------------------------


def _settings(launch: Launch, source: str) -> tuple[Setting, ...]:
    version = release_of(launch.image)
    like = LIKE.get(launch.engine, "other")
    asked = settings.from_flags(like, launch.argv, version, source, launch.line)
    if like == "other":
        asked = (*asked, *_llama(asked))
    lines = {n: Evidence(source, f"{n}={v}"[:SHOWN], launch.line) for n, v in launch.env.items()}
    return (*settings.from_environ(like, launch.env, version, lines), *asked, *_binding(launch, source))


def _llama(asked: Sequence[Setting]) -> Iterator[Setting]:
    for s in asked:
        key = LLAMA.get(s.key.removeprefix("other."))
        if key is not None:
            value = int(s.value) if str(s.value).isdigit() and len(str(s.value)) < 10 else s.value
            yield replace(s, key=key, value=value)


def _binding(launch: Launch, source: str) -> Iterator[Setting]:
    if launch.bound:
        said = " ".join(launch.bound)
        yield Setting("host.numa", True, "asked", launch.bound[0], Evidence(source, said, launch.line))
