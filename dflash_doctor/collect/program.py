"""What is sent to a host: a short text for its shell, the program, the questions; and the plan that shows them."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import types
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from dflash_doctor import paths
from dflash_doctor.model import Host

# The first word on the host. It says which program it can run, so that the right one follows.
# No single quotes, no `!` and no line breaks in it: whatever login shell the host has passes it on to sh whole.
PYTHONS = "python3 /usr/bin/python3 /usr/local/bin/python3 /opt/conda/bin/python3 python"
CHECK = "import sys; sys.exit(sys.version_info < (3, 6))"
START = "import sys; i = sys.stdin.buffer; exec(i.read(int(i.readline())))"
WITH_PYTHON = (
    f'for p in {PYTHONS}; do if "$p" -ISBc "{CHECK}" </dev/null >/dev/null 2>&1; '
    f'then echo; echo dflash-doctor python; exec "$p" -ISBc "{START}"; fi; done; '
)
WITH_SHELL = (
    'echo; echo dflash-doctor sh; n=$(printf "\\nx"); n=${n%x}; s=; while IFS= read -r l; do '
    'if [ "$l" = "#end" ]; then break; fi; s="$s$l$n"; done; eval "$s"'
)


def loader(shell_only: bool = False) -> str:
    """The one command that is run: `sh -c` with this text."""
    return ("" if shell_only else WITH_PYTHON) + WITH_SHELL


@cache
def questions() -> Mapping[str, Any]:
    """probes/collect.yaml."""
    read = yaml.safe_load(paths.probes("collect.yaml").read_text(encoding="utf-8"))
    assert isinstance(read, dict)
    return read


def python_payload(options: Mapping[str, Any]) -> bytes:
    """Everything the Python program is given on stdin, length-prefixed."""
    program = paths.probes("collector.py").read_bytes()
    modules = {p.stem: p.read_text(encoding="utf-8") for p in paths.probes("guest").glob("*.py")}
    # the largest part by far; a host whose Python cannot unpack it has nvidia-smi
    pynvml = base64.b64encode(zlib.compress(_pynvml(), 9)).decode()
    said = {"modules": modules, "pynvml": pynvml, "questions": questions(), "options": options}
    given = json.dumps(said).encode()
    return b"%d\n%b%d\n%b" % (len(program), program, len(given), given)


def shell_payload(options: Mapping[str, Any]) -> bytes:
    """The shell program, with its options as variables in front."""
    port = options.get("engine_port")
    head = f"engine_port={int(port) if port else ''}\nallowed='{_allowed()}'\n"
    return head.encode() + paths.probes("collector.sh").read_bytes().rstrip(b"\n") + b"\n#end\n"


def _allowed() -> str:
    """Names of environment variables as one regular expression for grep -E."""
    names = [str(n).replace("*", "[A-Za-z0-9_]*") for n in questions()["environ"]]
    assert all(re.fullmatch(r"[\w\[\]*-]+", n) for n in names)
    return "^(" + "|".join(names) + ")="


def _pynvml() -> bytes:
    """Source of the pynvml module that is installed here."""
    spec = importlib.util.find_spec("pynvml")
    return b"" if spec is None or spec.origin is None else Path(spec.origin).read_bytes()


@cache
def hider() -> Any:
    """The same code that hides secrets on hosts, for what we read ourselves."""
    module = types.ModuleType("hide")
    source = paths.probes("guest", "hide.py")
    exec(compile(source.read_text(encoding="utf-8"), str(source), "exec"), module.__dict__)
    return module.Hider(questions()["keep"])


# -- the plan ---------------------------------------------------------------------------------------------------------


def plan(host: Host) -> str:
    """Every file, command and address that would be read on this host, as text for people."""
    if host.kind == "url":
        urls = [f"  GET {host.address}{path}" for path in URLS]
        return "\n".join([f"Of {host.address} these would be read, from here and over HTTP only:", "", *urls, ""])
    if host.kind == "capture":
        return f"{host.address} is on disk: nothing would be run anywhere.\n"
    how = "over one SSH connection, by one command" if host.kind == "ssh" else "by one child process"
    out = [
        f"On {host.target} these would be read, {how}; nothing is written there:",
        "",
        f"  sh -c '{loader()}'",
        "",
        "It starts the first Python it finds, which asks what follows, all at once, and ends when its stdin closes.",
        "",
    ]
    for q in questions()["questions"]:
        out.append(f"  {q['name']} -> {q['file']} (at most {q['seconds']} s{_only(q)})")
        out += [f"      {line}" for line in _asked(q)]
    out += ["", "Environment variables that would be looked at, values of secrets hidden:", ""]
    out += ["  " + line for line in _wrapped(questions()["environ"])]
    out += [
        "",
        "Without Python on the host, a shell script asks the same of ps, nvidia-smi, curl or wget as far as it can.",
    ]
    return "\n".join(out) + "\n"


URLS = ("/metrics", "/version", "/v1/models", "/server_info", "/get_server_info")


def _only(q: Mapping[str, Any]) -> str:
    return f", {q['only']} only" if q.get("only") else ""


def _asked(q: Mapping[str, Any]) -> list[str]:
    lines = [str(t) for t in q.get("touches") or ()]
    if q.get("read"):
        lines.append(f"the file {q['read']}")
    for command in (q.get("run"), *(q.get("also") or ()), q.get("otherwise")):
        if command:
            lines.append("runs " + " ".join(command))
    urls = q.get("url") or ()
    lines += [f"GET http://127.0.0.1:<engine port>{u}" for u in ([urls] if isinstance(urls, str) else urls)]
    for names in ("once", "live"):
        if q.get(names):
            lines += [f"<names>, {names}:", *(f"  {line}" for line in _wrapped(q[names]))]
    if q.get("keep"):
        lines.append(f"only lines that match {q['keep']}")
    return lines


def _wrapped(words: list[str], width: int = 100) -> list[str]:
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += ("" if not lines[-1] else " ") + word
    return lines
