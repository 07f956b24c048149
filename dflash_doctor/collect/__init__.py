"""Host -> Capture: one connection, one exec; and captures on disk.

with collect.open_session(host, collect.Options()) as visit:
    visit.look()            # who serves there
    visit.endpoint()        # where a load would go
    visit.load_begin(); …; visit.load_end()
    capture = visit.finish()
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dflash_doctor.collect.options import Endpoint, Engine, Look, Options
from dflash_doctor.collect.program import hider, plan
from dflash_doctor.collect.store import check_free, load, save
from dflash_doctor.model import Capture, Gap, Host, Refused

if TYPE_CHECKING:
    from dflash_doctor.collect.session import Session
    from dflash_doctor.collect.url import UrlSession

    AnySession = Session | UrlSession

__all__ = [
    "AnySession",
    "Endpoint",
    "Engine",
    "Look",
    "Options",
    "added",
    "check_free",
    "collect",
    "hider",
    "load",
    "open_session",
    "plan",
    "save",
]


def open_session(host: Host, options: Options | None = None) -> AnySession:
    """Begin a visit. Raises Refused, with what to do, when the host cannot be reached or must not be trusted."""
    # paramiko takes a tenth of a second to load, which a capture on disk need not wait for
    from dflash_doctor.collect.session import Session
    from dflash_doctor.collect.url import UrlSession

    options = options or Options()
    if host.kind == "capture":
        raise Refused(f"{host.target} is on disk: it is loaded, not visited")
    return UrlSession(host, options) if host.kind == "url" else Session(host, options)


def collect(host: Host, options: Options | None = None) -> Capture:
    """The whole visit without a load."""
    with open_session(host, options) as visit:
        return visit.finish()


def added(capture: Capture, name: str, data: bytes, *gaps: Gap) -> Capture:
    """The same capture with one more file (`load.json`) and more gaps."""
    return replace(capture, files={**capture.files, name: data}, gaps=tuple(dict.fromkeys([*capture.gaps, *gaps])))
