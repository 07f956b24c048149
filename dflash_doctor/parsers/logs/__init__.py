"""The engine's log, in whatever form it was pasted -> Facts of the last server start, earlier ones beside it.

    (EngineCore pid=61) INFO 05-21 21:31:45 [kv_cache_utils.py:1708] GPU KV cache size: 334,400 tokens

text ▶ lines (wrapping) ▶ records (prefix) ▶ events (signals, alarms, exceptions) ▶ boots ▶ settings, intervals, samples
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from io import BytesIO
from itertools import chain, islice, starmap
from typing import TYPE_CHECKING

from dflash_doctor.model import Facts, Gap, Interval, Setting
from dflash_doctor.parsers.logs import boots, clock, llama, merged, samples, stated, steady, windows
from dflash_doctor.parsers.logs.boots import Boot
from dflash_doctor.parsers.logs.events import Event, events_of
from dflash_doctor.parsers.logs.prefix import Record, records
from dflash_doctor.parsers.logs.signals import Book, book
from dflash_doctor.parsers.logs.wrapping import Raw, lines
from dflash_doctor.parsers.texts import LOOKED_AT, refuse_binary

READS: tuple[str, ...] = ("server.log", "server.*.log")

if TYPE_CHECKING:
    from dflash_doctor.parsers.logs.large import Stream

SMALL = 8 << 20  # characters or bytes; below it reading every line takes about a second
HEAD = 4000  # records that decide which engine wrote the log
LLAMA = ("llama_model_loader:", "llm_load_print_meta:", "print_info:", "llama_context:", "slot print_timing:")


def parse(text: str, source: str) -> Facts:
    """What a log says; raises Unreadable when it is empty or no text."""
    if len(text) > SMALL:
        return parse_large(BytesIO(text.encode("utf-8", "replace")), source)
    refuse_binary(text, "a log")
    return _read(starmap(Raw, enumerate(text.split("\n"), 1)), source)


def parse_large(stream: Stream, source: str) -> Facts:
    """The same for a log of any size, in UTF-8; the memory for it does not grow with it."""
    # numpy and hyperscan take a tenth of a second to load, which small logs need not wait for
    from dflash_doctor.parsers.logs.large import Reader, blocks

    flow = blocks(stream)
    first = next(flow, b"")
    beginning = first[:LOOKED_AT].decode("utf-8", "replace")
    refuse_binary(beginning, "a log")
    head = list(_records(starmap(Raw, enumerate(beginning.split("\n"), 1))))
    reader = Reader(_engine(head))
    for block in chain((first,), flow):
        reader.feed(block)
    found = _read(reader.lines(), source)
    return replace(found, gaps=(*found.gaps, *reader.gaps(source)))


def _read(texts: Iterable[Raw], source: str) -> Facts:
    flow = _records(texts)
    head = list(islice(flow, HEAD))
    engine = _engine(head)
    found, gaps = _one_server(list(events_of(_dated(chain(head, flow)), book(engine))), engine)
    starts = boots.split(found, engine)
    if not starts:
        return Facts(engine=engine or None, gaps=(*gaps, Gap(source, "nothing in this log is known to this version")))
    parts = [_facts(b, engine, source, i + 1 < len(starts)) for i, b in enumerate(starts)]
    return replace(parts[-1], earlier=tuple(parts[:-1]), gaps=gaps)


def _records(texts: Iterable[Raw]) -> Iterable[Record]:
    return (record for line in lines(texts) for record in records(line))


def _dated(flow: Iterable[Record]) -> Iterable[Record]:
    """Stamps without a year run on over New Year's Eve."""
    last: float | None = None
    for r in flow:
        if r.time is not None and not r.dated:
            moved = clock.later(last, r.time)
            last = moved if last is None else max(last, moved)
            r = r if moved == r.time else replace(r, time=moved)
        yield r


# -- whose log it is --------------------------------------------------------------------------------------------------


def _engine(head: Sequence[Record]) -> str:
    """The engine that wrote most of the lines whose layout or words are an engine's."""
    votes = Counter(r.engine for r in head if r.engine)
    if not votes:
        votes = Counter(e for r in head for e in (_by_words(r.body),) if e)
    return votes.most_common(1)[0][0] if votes else ""


def _by_words(body: str) -> str:
    """Logs of another layout: the engine's own words still tell it."""
    if body.startswith(LLAMA):
        return "llama.cpp"
    if body.startswith(("server_args=", "Decode batch", "Prefill batch", "Load weight ", "max_total_num_tokens=")):
        return "sglang"
    if "LLM engine (v" in body[:60] or "Avg generation throughput:" in body or "vLLM" in body[:40]:
        return "vllm"
    return ""


def _one_server(found: list[Event], engine: str) -> tuple[list[Event], tuple[Gap, ...]]:
    """A log of several services: the server that was busiest. Services that start no server are its helpers."""
    starts = Counter(e.record.label for e in found if e.id in boots.BANNERS)
    if len(starts) < 2:
        return found, ()
    busy = Counter(e.record.label for e in found if e.id in boots.STATS)
    best = max(starts, key=lambda label: (busy[label], starts[label]))
    others = ", ".join(sorted(label or "no name" for label in starts if label != best))
    why = f"this log holds several servers; read {best or 'the one without a name'}, not {others}"
    return [e for e in found if e.record.label == best or e.record.label not in starts], (Gap("server.log", why),)


# -- one boot ---------------------------------------------------------------------------------------------------------


def _facts(boot: Boot, engine: str, source: str, followed: bool) -> Facts:
    version = next((e.fields["version"] for e in boot.events if "version" in e.fields and e.id in VERSIONS), None)
    said = stated.stated(boot.events, engine, version, source)
    how = boots.outcome(boot, engine, followed)
    seen = _windows(boot, engine, said)
    began = next((e.record.time for e in boot.events if e.record.time is not None), None)
    return Facts(
        engine=engine or None,
        version=version,
        settings=said,
        signals=merged.signals(boot.events, source, how.shutdown_at, began),
        samples=(
            *samples.samples(seen, source, _drafts(said, seen)),
            *samples.iterations(boot.events, source),
            *llama.samples(boot.events, source),
            *samples.capacity(boot.events, source, _page_size(said)),
        ),
        intervals=tuple(_interval(w, began, boot) for w in seen),
        served=how.served,
    )


VERSIONS = ("engine.version", "engine.config")


def _windows(boot: Boot, engine: str, said: Sequence[Setting]) -> list[windows.Window]:
    started = bool(boot.seen) or any(e.id in boots.READY for e in boot.events)
    if engine == "sglang":
        chain_of = {s.key: s.value for s in said if s.key in ("spec.depth", "spec.topk")}
        depth = chain_of.get("spec.depth") if chain_of.get("spec.topk", 1) == 1 else None
        seen = windows.sglang(boot.events, depth if isinstance(depth, int) else None)
        steady.mark_sglang(seen, started)
    else:
        seen = windows.vllm(boot.events)
        steady.mark_vllm(seen, started)
    return seen


def _interval(w: windows.Window, began: float | None, boot: Boot) -> Interval:
    i = w.interval
    dated = next((e.record.dated for e in boot.events if e.record.time is not None), True)
    time = i.time if i.time is None or dated or began is None else i.time - began
    return replace(i, steady=not w.trouble and (i.generation_tok_s is not None or i.kind == "prefill"), time=time)


def _drafts(said: Sequence[Setting], seen: Sequence[windows.Window]) -> bool | None:
    """Whether tokens are drafted: vLLM prints acceptance only in windows that drafted."""
    if any(w.interval.accept_length is not None for w in seen):
        return True
    methods = [s.value for s in said if s.key == "spec.method"]
    return bool(methods) and methods[-1] not in ("none", None)


def _page_size(said: Sequence[Setting]) -> int | None:
    return next((s.value for s in reversed(said) if s.key == "kv.page_size" and isinstance(s.value, int)), None)


__all__ = ["READS", "SMALL", "Book", "parse", "parse_large"]
