"""The HTTP client of a load: where it goes, with which key, over which connections."""

from __future__ import annotations

import httpx

from dflash_doctor.load.client import APIS
from dflash_doctor.load.wire import Transport
from dflash_doctor.model import Refused

CONNECT_S = 5.0


def opened(
    url: str, seconds: float, api_key: str | None = None, transport: httpx.AsyncBaseTransport | None = None
) -> httpx.AsyncClient:
    """A client for one load of so many seconds. Raises Refused for an address or a key that cannot be used."""
    headers = {"Authorization": f"Bearer {_sendable(api_key)}"} if api_key else {}
    timeout = httpx.Timeout(seconds + CONNECT_S, connect=CONNECT_S)
    try:
        return httpx.AsyncClient(
            base_url=url, headers=headers, timeout=timeout, trust_env=False, transport=transport or Transport()
        )
    except httpx.InvalidURL as e:
        raise Refused(f"{url} is no address: {e}") from e


def apis(wanted: str | None) -> tuple[str, ...]:
    """Those that may be tried. Raises Refused for one that nobody knows."""
    if wanted is not None and wanted not in APIS:
        raise Refused(f"--api {wanted} is not known; it is one of {', '.join(APIS)}")
    return APIS if wanted is None else (wanted,)


def _sendable(key: str) -> str:
    # the HTTP library would quote the key in its complaint
    if not key.isascii() or not key.isprintable() or " " in key:
        raise Refused("the API key has characters that cannot be sent in a header")
    return key
