"""Logging in with the keys that there are: those ssh_config names, those of the agent, the usual files."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from pathlib import Path

import paramiko
from paramiko.pkey import PublicBlob, UnknownKeyType

from dflash_doctor.model import Host, Refused

USUAL = ("id_ed25519", "id_ecdsa", "id_rsa")
MOST = 6  # sshd hangs up after MaxAuthTries, six by default


def log_in(host: Host, transport: paramiko.Transport, shown: str) -> None:
    """Authenticate; raises Refused with every key that was tried."""
    user = host.user or current_user()
    try:
        transport.auth_none(user)
        return
    except paramiko.BadAuthenticationType as e:
        allowed = list(e.allowed_types)
    if "publickey" not in allowed:
        raise Refused(f"{shown} takes no keys, only {', '.join(allowed)}: set up a key with `ssh-copy-id {shown}`")
    tried: list[str] = []
    problems: list[str] = []
    for name, key in _keys(host, problems):
        if len(tried) >= MOST:
            break
        tried.append(name)
        try:
            more = transport.auth_publickey(user, key)
        except paramiko.AuthenticationException:
            continue
        except paramiko.SSHException as e:  # too many tries, or a key the agent would not use
            problems.append(f"{name}: {e}")
            if not transport.is_active():
                break
            continue
        if not more:
            return
        raise Refused(f"{shown} took the key {name} but also wants {', '.join(more)}, which cannot be given here")
    said = f"it accepts none of: {', '.join(tried)}" if tried else "there is no key to offer"
    why = "; ".join([said, *problems])
    raise Refused(f"ssh refused {user}@{host.address}: {why}")


def current_user() -> str:
    """Who logs in when nobody says."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a passwd entry
        return str(os.getuid())


def _keys(host: Host, problems: list[str]) -> Iterator[tuple[str, paramiko.PKey]]:
    """(name, key) in OpenSSH's order: the agent's that a named file points to, named files, the agent's others."""
    named = [Path(p).expanduser() for p in host.options.get("identityfile") or ()]
    only = str(host.options.get("identitiesonly", "no")).lower() == "yes"
    folder = Path.home() / ".ssh"
    files = [p for p in (named or [folder / n for n in USUAL]) if p.is_file()]
    if named and not files:
        problems.append(f"no such key file: {', '.join(map(str, named))}")
    held = {k.asbytes(): k for k in _agent(host)}
    for path in files:
        key = _agents_own(path, held)
        if key is not None:
            yield f"{path} (agent)", key
            continue
        try:
            yield str(path), paramiko.PKey.from_path(path)
        except (TypeError, paramiko.PasswordRequiredException):
            problems.append(f"{path} has a passphrase: load it with `ssh-add {path}`")
        except (paramiko.SSHException, UnknownKeyType, ValueError, OSError) as e:
            problems.append(f"{path} cannot be used: {e}")
    if not only:
        for agents in held.values():
            yield f"agent key {agents.get_name()}", agents


def _agents_own(path: Path, held: dict[bytes, paramiko.AgentKey]) -> paramiko.AgentKey | None:
    """The agent's key that belongs to this file, by the public half beside it."""
    public = path.with_name(path.name + ".pub")
    if not held or not public.is_file():
        return None
    try:
        blob = PublicBlob.from_file(str(public)).key_blob
    except (ValueError, OSError, paramiko.SSHException):
        return None
    return held.pop(blob, None)


def _agent(host: Host) -> tuple[paramiko.AgentKey, ...]:
    if str(host.options.get("identityagent", "")).lower() == "none":
        return ()
    try:
        return paramiko.Agent().get_keys()
    except (paramiko.SSHException, OSError):  # an agent that went away
        return ()
