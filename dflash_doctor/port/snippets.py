"""The launch as people paste it: a shell command, a compose service, a Kubernetes deployment."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from dflash_doctor.port.nouns import ENGINES, Launch

IMAGES = {"vllm": "vllm/vllm-openai:v{version}", "sglang": "lmsysorg/sglang:v{version}"}
PORTS = {"vllm": 8000, "sglang": 30000}
STARTS = {"vllm": ("vllm", "serve"), "sglang": ("python3", "-m", "sglang.launch_server")}
MARK = "not known to the map, carried through as it stands:"
_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]*$")


def argv(launch: Launch) -> list[str]:
    """The words of the command, without what was hidden."""
    return [word for words in _lines(launch) for word in words]


def _lines(launch: Launch) -> Iterator[tuple[str, ...]]:
    model = launch.model or "MODEL"
    if launch.engine == "vllm":
        yield (*STARTS["vllm"], model)
    else:
        yield STARTS["sglang"]
        yield ("--model-path", model)
    yield from launch.flags
    for name, config in launch.configs.items():
        yield ("--" + name.replace("_", "-"), json.dumps(config))


# -- shell ------------------------------------------------------------------------------------------------------------


def as_shell(launch: Launch) -> str:
    """One command over several lines, variables in front, what is not known behind a mark."""
    lines = [f"{name}={quoted(value)} \\" for name, value in launch.env.items()]
    words = [" ".join(quoted(w) for w in line) for line in _lines(launch)]
    words += [f'{flag} "${variable}"' for flag, variable in launch.secrets]  # the shell that runs it knows
    lines += " \\\n    ".join(words).split("\n")
    if launch.unknown:
        lines.append(f"# {MARK}")
        lines += ["#     " + " ".join(quoted(w) for w in words) for words in launch.unknown]
    return "\n".join(lines) + "\n"


def quoted(word: str) -> str:
    """A word as a shell takes it; what does not print is escaped, so that a capture cannot write to a terminal."""
    if _PLAIN.match(word):
        return shlex.quote(word)
    escaped = "".join(_escape(c) for c in word)
    return f"$'{escaped}'"


def _escape(c: str) -> str:
    if c in "\\'":
        return "\\" + c
    if _PLAIN.match(c):
        return c
    code = ord(c)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# -- containers -------------------------------------------------------------------------------------------------------


def as_compose(launch: Launch) -> str:
    """A service for `docker compose up`."""
    port = launch.port or PORTS[launch.engine]
    service: dict[str, Any] = {
        "image": _image(launch),
        "command": _arguments(launch),
        "environment": {**launch.env, **_empty_secrets(launch, "${{{0}:?}}")},
        "ports": [f"{port}:{port}"],
        "ipc": "host",
        "deploy": {
            "resources": {
                "reservations": {"devices": [{"driver": "nvidia", "count": launch.gpus, "capabilities": ["gpu"]}]}
            }
        },
    }
    if launch.model and launch.model.startswith("/"):
        service["volumes"] = [f"{launch.model}:{launch.model}:ro"]
    return _marked(launch) + _yaml({"services": {launch.engine: _filled(service)}})


def as_kubernetes(launch: Launch) -> str:
    """A deployment of one pod."""
    port = launch.port or PORTS[launch.engine]
    env: list[dict[str, Any]] = [{"name": k, "value": v} for k, v in launch.env.items()]
    env += [
        {"name": v, "valueFrom": {"secretKeyRef": {"name": launch.engine, "key": v.lower()}}} for _, v in launch.secrets
    ]
    container: dict[str, Any] = {
        "name": launch.engine,
        "image": _image(launch),
        "args": _arguments(launch),
        "env": env,
        "ports": [{"containerPort": port}],
        "resources": {"limits": {"nvidia.com/gpu": launch.gpus}},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
    }
    if launch.engine == "sglang":
        container["command"] = list(STARTS["sglang"])
    labels = {"app": launch.engine}
    pod = {"containers": [_filled(container)], "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]}
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": launch.engine},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    return _marked(launch) + _yaml(document)


def _arguments(launch: Launch) -> list[str]:
    """The words behind the image's own entry point: `vllm serve` in one, nothing in the other."""
    words = argv(launch)
    words = words[2:] if launch.engine == "vllm" else words[3:]
    for flag, variable in launch.secrets:
        words += [flag, f"$({variable})"]
    return words


def _image(launch: Launch) -> str:
    return IMAGES[launch.engine].format(version=launch.version)


def _empty_secrets(launch: Launch, form: str) -> dict[str, str]:
    return {variable: form.format(variable) for _, variable in launch.secrets}


def _filled(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in mapping.items() if v not in ({}, [], None)}


def _marked(launch: Launch) -> str:
    marked = [" ".join(quoted(w) for w in words) for words in launch.unknown]
    return "".join(f"# {MARK} {line}\n" for line in marked)


class _Plain(yaml.SafeDumper):
    """Everything written out: an anchor is one thing more to understand."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _yaml(document: Any) -> str:
    text: str = yaml.dump(document, Dumper=_Plain, sort_keys=False, width=10_000)
    return text


FORMS: Mapping[str, Callable[[Launch], str]] = {"shell": as_shell, "compose": as_compose, "k8s": as_kubernetes}


def written(launch: Launch, form: str) -> str:
    """The launch in one of the forms, under a line that says for whom it is."""
    return f"# {ENGINES[launch.engine]} {launch.version}\n{FORMS[form](launch)}"
