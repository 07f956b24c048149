"""What a server says of itself beside the requests: its model, its counters, whether it is busy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx

from dflash_doctor.load import counters
from dflash_doctor.model import Refused

ANSWER_S = 5.0  # for a page that a server has at hand
MOST_BYTES = 16 << 20  # of one page; /metrics of a large server has 0.3 MB
SETTLE_S, SETTLE_LOOKS = 0.1, 5  # the counters of the last step follow its tokens


class NotNow(Refused):
    """The server is busy, silent or failing: no load can be measured on it now, though it can still be looked at."""


Look = Callable[[], Awaitable[counters.Scrape]]


async def page(client: httpx.AsyncClient, path: str) -> tuple[int, bytes]:
    """Status and body of one page. Raises httpx.HTTPError, also when it does not end in time."""

    async def whole() -> tuple[int, bytes]:
        async with client.stream("GET", path) as answer:
            body = b""
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > MOST_BYTES:
                    raise httpx.ReadError(f"{path} is larger than {MOST_BYTES >> 20} MiB")
            return answer.status_code, body

    try:
        return await asyncio.wait_for(whole(), ANSWER_S)
    except asyncio.TimeoutError as e:
        raise httpx.ReadTimeout(f"no answer to {path} within {ANSWER_S:.0f} s") from e


@dataclass(frozen=True)
class Served:
    """What answers: the model's name, and how many tokens prompt and answer may have together."""

    model: str
    context: int | None


async def model(client: httpx.AsyncClient) -> Served:
    """The model that is served."""
    url = str(client.base_url).rstrip("/")
    try:
        status, body = await page(client, "/v1/models")
    except httpx.HTTPError as e:
        raise NotNow(f"nothing answers at {url}: {e or type(e).__name__}") from e
    if status != 200:
        hint = "; give the key with --api-key-env or --api-key-file" if status in (401, 403) else ""
        raise NotNow(f"{url}/v1/models answers {status}{hint}")
    try:
        first = json.loads(body)["data"][0]
        context = first.get("max_model_len")
        return Served(str(first["id"]), context if isinstance(context, int) else None)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as e:
        raise NotNow(f"{url}/v1/models names no model: is this a vLLM or SGLang server?") from e


async def scrape(client: httpx.AsyncClient) -> counters.Scrape:
    """The counters now; empty when the server gives none."""
    try:
        status, body = await page(client, "/metrics")
    except httpx.HTTPError:
        return {}
    return counters.read(body.decode("utf-8", "replace")) if status == 200 else {}


async def settled(look: Look) -> counters.Scrape:
    """The counters once they stand still; as they are when others keep them moving."""
    found = await look()
    for _ in range(SETTLE_LOOKS if found else 0):
        await asyncio.sleep(SETTLE_S)
        before, found = found, await look()
        if found == before:
            break
    return found


def busy(seen: counters.Scrape, allowed: int | None) -> str | None:
    """Refuses when more requests of others are there than allowed (None: any number); a note when there is doubt."""
    others = counters.present(seen)
    if others is None:
        return "the server exports no metrics: whether others use it meanwhile is not known"
    if others <= 0:
        return None
    many = f"{others:.0f} other request{'s are' if others > 1 else ' is'} running"
    if allowed is None or others <= allowed:
        return f"{many} when the load began"
    raise NotNow(
        f"{many}; a load now would slow them and be slowed by them. "
        "Come back when they are done, or say --busy-ok, --max-running N (or --no-load)"
    )
