"""Records -> what was said: known signals, warnings that no pattern knows, exceptions of tracebacks, requests served.

    (Worker_TP1 pid=133) ERROR 05-21 22:10:04 [multiproc_executor.py:962] Traceback (most recent call last):
    (Worker_TP1 pid=133) ERROR 05-21 22:10:04 [multiproc_executor.py:962]   File "/opt/venv/…/gpu_worker.py", line 7…
    (Worker_TP1 pid=133) ERROR 05-21 22:10:04 [multiproc_executor.py:962] torch.AcceleratorError: CUDA error: …

Of a traceback only the last line is an event; the others are its way there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from dflash_doctor.parsers.logs.prefix import Record
from dflash_doctor.parsers.logs.signals import Book, Match

UNKNOWN = "unknown"
REQUEST = "api.request"  # a request that was answered; not a signal, but proof that the server serves
FAILED_REQUEST = "api.http_error"
LOUD = ("WARNING", "ERROR", "CRITICAL")
LONGEST = 1500  # characters of a body that patterns are tried on: a pattern may be quadratic, a log must not
LONGEST_CONFIGURATION = 400_000  # characters of a printed configuration; SGLang's has 25 thousand
LONGEST_EVIDENCE = 2000  # characters of a line that a report may want to show


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that was said, once or several times in a row."""

    id: str
    record: Record
    level: str
    fields: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    count: int = 1
    exception: bool = False  # the last line of a traceback
    of_main: bool = False  # … that left the main module: the process ended with it

    @property
    def number(self) -> int:
        """The line, 1-based."""
        return self.record.number


def events_of(records: Iterable[Record], book: Book) -> Iterator[Event]:
    """The events of one engine's records, in order; requests in a row are one event."""
    reader = _Tracebacks(book)
    waiting: Event | None = None  # requests answered since the last other event
    for record in records:
        event = reader.event(record)
        if event is None:
            continue
        if event.id == REQUEST:
            waiting = event if waiting is None else replace(event, count=waiting.count + 1)
            continue
        if waiting is not None:
            yield waiting
            waiting = None
        yield event
    if waiting is not None:
        yield waiting


# -- tracebacks -------------------------------------------------------------------------------------------------------

TRACEBACK = "Traceback (most recent call last)"
LINKS = ("During handling of the above exception", "The above exception was the direct cause")
# torch.OutOfMemoryError: CUDA out of memory. …, KeyboardInterrupt, vllm.v1.engine.exceptions.EngineDeadError: …
EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:: |:?$)")
NAMED_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception)|KeyboardInterrupt|SystemExit): ")
#   File "<frozen runpy>", line 198, in _run_module_as_main;  File "/opt/venv/bin/vllm", line 8, in <module>
MAIN = re.compile(r'  File "(?:<frozen runpy>", line \d+, in _run_module_as_main|[^"]+", line \d+, in <module>)')
#   File "/opt/venv/lib/…/vllm/v1/worker/gpu/model_runner.py", line 968, in capture_model
CAPTURING = re.compile(r'  File "[^"]+", line \d+, in _?capture\w*')
CAPTURE_FAILED = "graph.capture_failed"


@dataclass
class _Way:
    """What the frames of an open traceback have shown."""

    of_main: bool = False
    capturing: bool = False

    def see(self, frame: str) -> None:
        self.of_main = self.of_main or bool(MAIN.match(frame))
        self.capturing = self.capturing or bool(CAPTURING.match(frame))


class _Tracebacks:
    """Follows the tracebacks of several processes that write into one log."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.open: dict[tuple[str, str, str], _Way] = {}  # by who prints it
        self.last: tuple[str, str, str] | None = None  # whose traceback the raw lines belong to

    def event(self, record: Record) -> Event | None:
        who = (record.label, record.rank, record.pid)
        raw = not record.level and not record.engine
        if raw and who not in self.open and self.last in self.open:
            # SGLang stamps only the first line of a message: the raw lines that follow are its own
            who = self.last or who
        body = record.body
        if who in self.open:
            if _on_the_way(body):
                self.open[who].see(body)
                return None
            if EXCEPTION.match(body):
                return _exception(record, self.book, self.open.pop(who))
            if raw and body.strip():
                self.open.pop(who)
        if TRACEBACK in body[-60:] or body.startswith(TRACEBACK):
            self.open[who] = _Way()
            self.last = who
            if body.startswith(TRACEBACK):
                return None
        return _event(record, self.book)


def _on_the_way(body: str) -> bool:
    return not body.strip() or body[0] in " \t+|" or body.startswith((TRACEBACK, *LINKS))


def _exception(record: Record, book: Book, way: _Way) -> Event:
    body = record.body[:LONGEST]
    match = book.match(body) or book.match(body.partition(": ")[2])
    event = (
        Event(UNKNOWN, _kept(record), "ERROR", count=record.repeated)
        if match is None
        else _signal(record, match, "ERROR")
    )
    level = event.level if event.level in ("ERROR", "CRITICAL") else "ERROR"
    if way.capturing:
        event = replace(event, id=CAPTURE_FAILED, topics=tuple(dict.fromkeys((*event.topics, "cuda_graph_disabled"))))
    return replace(event, level=level, exception=True, of_main=way.of_main)


# -- single lines -----------------------------------------------------------------------------------------------------

# 127.0.0.1:51234 - "POST /v1/completions HTTP/1.1" 200 OK
ACCESS = re.compile(r'\S+ - "(?P<method>[A-Z]+) (?P<path>\S+) HTTP/[\d.]+" (?P<status>\d{3})')
# /opt/venv/…/awq.py:53: UserWarning: Only CUDA, HIP and XPU support AWQ currently.
PYTHON_WARNING = re.compile(r"\S+\.pyx?:\d+: (?P<kind>\w*Warning): ")
# what libraries tell their developers, not their users
QUIET_KINDS = ("FutureWarning", "DeprecationWarning", "PendingDeprecationWarning", "FastAPIDeprecationWarning")
# engines without level names: a warning is recognised by its words
WARNS = re.compile(
    r"\b(?:warning|deprecated|fall(?:s|ing)? ?back|fallback|not (?:supported|found|available|installed)|unsupported|"
    r"disabl(?:ed|ing)|failed|fail to|unable to|cannot|can't|could not|skip(?:ping|ped)? loading|missing|"
    r"ignor(?:ed|ing)|unavailable|mismatch|degrade\w*|sub-?optimal|slow(?:er)?|no longer|exceeds|"
    r"too (?:small|large|many|few))\b",
    re.I,
)
FAILS = re.compile(r"\b(?:fatal|hit an exception|out of memory|died|core dumped)\b|^(?:\w+\.)*\w*(?:Error|Exception)\b")


def _event(record: Record, book: Book) -> Event | None:
    body = record.body[:LONGEST]
    if ' - "' in body[:120] and (m := ACCESS.match(body)):
        return _request(record, m)
    match = book.match(body)
    if match is None and NAMED_EXCEPTION.match(body):
        match = book.match(body.partition(": ")[2])
    if match is not None:
        return _signal(record, match, "")
    level = _loudness(record)
    if level not in LOUD or not body.strip() or body[0] in " \t|+" or body.startswith((TRACEBACK, *LINKS)):
        return None
    return Event(UNKNOWN, _kept(record), level, count=record.repeated)


def _request(record: Record, m: re.Match[str]) -> Event | None:
    if m["method"] != "POST":
        return None  # health checks, scrapes, lists of models
    if m["status"].startswith("5"):
        fields = {"path": m["path"].partition("?")[0], "status": m["status"]}
        return Event(FAILED_REQUEST, _kept(record), "WARNING", fields, count=record.repeated)
    return Event(REQUEST, record, "INFO") if m["status"].startswith("2") else None


def _signal(record: Record, match: Match, level: str) -> Event:
    # an engine that names no level leaves it to the source it was read from
    level = record.level or level or match.form.level
    if match.form.level == "INFO" and match.form.id.startswith("server."):
        level = "INFO"  # a shutdown warns of itself
    fields = match.fields
    if match.form.id in CONFIGURATIONS and len(record.body) > LONGEST:
        fields = {k: _to_the_end(record.body, v) if k in ("args", "config") else v for k, v in fields.items()}
    return Event(match.form.id, _kept(record), level, fields, match.form.topics, record.repeated)


CONFIGURATIONS = ("engine.args", "engine.config")


def _to_the_end(body: str, begun: str) -> str:
    """A configuration in full, where its pattern saw only the first part."""
    at = body.find(begun[:80])
    return body[at : at + LONGEST_CONFIGURATION] if at >= 0 else begun


def _loudness(record: Record) -> str:
    if record.level:
        return record.level
    body = record.body
    if m := PYTHON_WARNING.match(body):
        return "INFO" if m["kind"] in QUIET_KINDS else "WARNING"
    if NAMED_EXCEPTION.match(body):
        return "ERROR"
    if record.engine == "sglang":
        return "ERROR" if FAILS.search(body[:400]) else "WARNING" if WARNS.search(body[:400]) else "INFO"
    return "INFO"


def _kept(record: Record) -> Record:
    if len(record.text) <= LONGEST_EVIDENCE:
        return record
    return replace(record, text=record.text[:LONGEST_EVIDENCE] + " …", body=record.body[:LONGEST])
