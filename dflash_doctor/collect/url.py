"""A serving endpoint without a host behind it: /metrics, /version, /v1/models and server info, over HTTP only."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import httpx

from dflash_doctor.collect import assemble
from dflash_doctor.collect.options import Endpoint, Engine, Look, Options
from dflash_doctor.collect.program import hider
from dflash_doctor.model import Capture, Gap, Host, Refused

LIMIT = 16 << 20  # no engine's answer to these is as long
ANSWER_S = 10.0  # SGLang asks every scheduler for its server info
UNSEEN = Gap(
    "host", "only the HTTP endpoint was given: no log, launch line or GPU counters; name the SSH host to see them"
)


class UrlSession:
    """The same visit as Session's, for a target that is an address."""

    connection = None

    def __init__(self, host: Host, options: Options) -> None:
        self.host, self.options = host, options
        self.began = time.time()
        self.samples: list[dict[str, Any]] = []
        self.gpus: dict[str, Any] = {}
        self.notes: list[str] = []
        self._files: dict[str, bytes] = {}
        self._gaps: list[Gap] = [UNSEEN]
        self._seen: Look | None = None
        headers = {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}
        timeout = httpx.Timeout(ANSWER_S, connect=options.timeout_s)
        self._client = httpx.Client(timeout=timeout, headers=headers, follow_redirects=True)
        try:
            self.look()  # a target that does not answer is refused when it is opened, as with SSH
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> UrlSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def look(self) -> Look:
        """Ask the endpoint; raises Refused when nothing answers there at all."""
        if self._seen is None:
            metrics = self._scrape()
            version = self._ask("/version", "version.json")
            self._ask("/v1/models", "models.json")
            # each asked by its own name only: the older path makes newer SGLang log a warning
            info = self._ask("/server_info?config_format=json", "server_info.json") or self._ask(
                "/get_server_info", "server_info.json"
            )
            name = _engine(metrics or b"", version, info)
            if name is None and not _names_models(self._files.get("models.json", b"")):
                raise Refused(f"{self.host.address} is no vLLM or SGLang server{self._reason()}")
            port = self.host.port or (443 if self.host.address.startswith("https") else 80)
            address = urlsplit(self.host.address).hostname or ""
            engine = Engine(name, port, address, listens=True, chosen=True) if name else None
            self._seen = Look((engine,) if engine else (), engine, tuple(self._gaps))
        return self._seen

    def endpoint(self) -> Endpoint | Gap:
        """The address itself."""
        return Endpoint(self.host.address, "direct")

    def load_begin(self) -> None:
        """One more scrape."""
        self._scrape()

    def load_end(self) -> None:
        """One more scrape."""
        self._scrape()

    def finish(self) -> Capture:
        """Put together what was answered."""
        self.look()
        self.close()
        return self.capture()

    def capture(self) -> Capture:
        """What was answered so far."""
        about = {"collector": "http", "seconds": round(time.time() - self.began, 2)}
        return assemble.capture(self.host, self.began, self._seen or Look(), about, self, self.gaps)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Everything that could not be seen so far."""
        return tuple(dict.fromkeys(self._gaps))

    def files(self) -> dict[str, bytes]:
        """What was answered so far, by the names of the capture folder."""
        return dict(self._files)

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def _reason(self) -> str:
        """Why nothing here speaks of an engine: a refused key explains most."""
        said = [g.why for g in self._gaps if g is not UNSEEN]
        if wanted := next((why for why in said if "API key" in why), None):
            return f": {wanted}; give the key with --api-key-env or --api-key-file"
        return f": {said[-1]}" if said else ": nothing that it answers is an engine's"

    def _scrape(self) -> bytes | None:
        body = self._get("/metrics")
        if body is not None:
            now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            before = self._files.get("metrics.prom", b"")
            self._files["metrics.prom"] = before + f"# scrape {now}\n".encode() + body.rstrip(b"\n") + b"\n"
        return body

    def _ask(self, path: str, name: str) -> bytes | None:
        body = self._get(path)
        if body is not None:
            self._files[name] = hider().json(body.decode("utf-8", "replace")).encode()
        return body

    def _get(self, path: str) -> bytes | None:
        """The body of a 200 answer; anything else is a gap, but a path that this engine does not have is none."""
        try:
            end = time.monotonic() + ANSWER_S
            with self._client.stream("GET", self.host.address + path) as answer:
                if answer.status_code == 200:
                    body = b""
                    for part in answer.iter_bytes():
                        body += part
                        if time.monotonic() > end:
                            raise httpx.ReadTimeout(f"no end of the answer within {ANSWER_S:g} s")
                        if len(body) > LIMIT:
                            raise httpx.ReadError(f"more than {LIMIT >> 20} MiB")
                    return body
                if answer.status_code not in (404, 405) or path in ("/metrics", "/v1/models"):
                    key = " (it wants an API key)" if answer.status_code in (401, 403) else ""
                    self._gaps.append(Gap(path, f"GET {self.host.address}{path}: HTTP {answer.status_code}{key}"))
        except (httpx.HTTPError, httpx.InvalidURL) as e:
            if self._seen is None and isinstance(e, httpx.ConnectTimeout):
                raise Refused(f"no answer from {self.host.address} within {self.options.timeout_s:g} s") from e
            if self._seen is None and isinstance(e, (httpx.ConnectError, httpx.InvalidURL)):
                raise Refused(f"cannot reach {self.host.address}: {e}") from e
            if self._seen is None and not self._files and isinstance(e, httpx.TimeoutException):
                # a port that takes connections and is silent would be waited for at every question
                raise Refused(
                    f"{self.host.address} takes the connection but does not answer within {ANSWER_S:g} s"
                ) from e
            self._gaps.append(Gap(path, f"GET {self.host.address}{path}: {str(e) or type(e).__name__}"))
        return None


def _names_models(body: bytes) -> bool:
    """Whether this is an answer of /v1/models: a server behind a proxy may show nothing else."""
    try:
        return isinstance(json.loads(body)["data"], list)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _is_object(body: bytes | None) -> bool:
    try:
        return isinstance(json.loads(body or b""), dict)
    except (ValueError, RecursionError):
        return False


def _engine(metrics: bytes, version: bytes | None, info: bytes | None) -> str | None:
    """Which engine answers so, by the names of its metrics, else by what it has."""
    for name in ("vllm", "sglang"):
        if f"\n{name}:".encode() in metrics or metrics.startswith(f"{name}:".encode()):
            return name
    if info is not None and _is_object(info):
        return "vllm" if b"vllm_config" in info[:2000] else "sglang"
    try:
        return "vllm" if version is not None and "version" in json.loads(version) else None
    except (ValueError, TypeError):
        return None
