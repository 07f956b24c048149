"""A tuned setup of one engine as the other engine, or another release of it, would run it; and what has no equivalent.

    ported = port(tuned, "vllm", "0.33.0", against=fresh)
    ported.rows       setting by setting: what it was, what is needed, what is there, and why
    ported.launch     command line, JSON options and environment; as_shell, as_compose and as_kubernetes write it out

`items` is the same for a diagnosis: the rows that somebody has to act on, the likeliest to cost first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dflash_doctor.gpu_words import GpuSpec, spec_of, specs
from dflash_doctor.model import Gap, Refused, Setting, Snapshot
from dflash_doctor.port import leftovers, rows, tables
from dflash_doctor.port.contradictions import clashes
from dflash_doctor.port.move import Move
from dflash_doctor.port.nouns import ACTS, ENGINES, Launch, Ported, Row, Status
from dflash_doctor.port.snippets import FORMS, as_compose, as_kubernetes, as_shell, written
from dflash_doctor.port.spell import Spelled, configs
from dflash_doctor.settings import constant_defaults, defaults
from dflash_doctor.settings.versions import number

__all__ = [
    "ACTS",
    "ENGINES",
    "FORMS",
    "Launch",
    "Ported",
    "Row",
    "Status",
    "as_compose",
    "as_kubernetes",
    "as_shell",
    "items",
    "port",
    "written",
]


def port(
    tuned: Snapshot, to: str, version: str | None = None, against: Snapshot | None = None, gpu: str | None = None
) -> Ported:
    """The tuned side's setup for engine `to`, held against a server that may already run there.

    `gpu` names the cards of the other side where neither capture shows them. Refused when there is nothing to carry.
    """
    _check(tuned, to, version, against)
    same_engine = against if against is not None and against.engine == to else None
    release = version or (same_engine.version if same_engine is not None else None) or tables.newest(to)
    was, card, card_note = _card(tuned, against, gpu)
    m = Move(
        tuned=_with_defaults(tuned), engine=to, version=release, against=same_engine, was=was, card=card,
        cards=_world(tuned), defaults=_defaults(to, release, version, same_engine),
    )  # fmt: skip
    lines = [*rows.lines(m), *leftovers.variables(m)]
    unknown = list(leftovers.unknown(m))
    table = sorted([*(line.row for line in lines), *(row for row, _ in unknown)], key=rows.rank)
    return Ported(
        name=tuned.name,
        engine=m.source,
        version=tuned.version,
        launch=_launch(m, lines, [words for _, words in unknown]),
        rows=tuple(table),
        clashes=clashes(tuned),
        notes=tuple(n for n in (card_note, *_notes(m, version, against)) if n),
        gaps=_gaps(tuned),
        against=against.name if against is not None else None,
    )


def items(was: Snapshot, now: Snapshot) -> tuple[Row, ...]:
    """What a server would have to be told to run as the tuned one did, the likeliest to cost first.

    Empty when either side is no engine that the map knows.
    """
    if was.engine not in ENGINES or now.engine not in ENGINES:
        return ()
    acting = [r for r in port(was, now.engine, now.version, now).rows if r.acts and r.now is not None]
    return tuple(sorted(acting, key=lambda r: -r.weight))


def _check(tuned: Snapshot, to: str, version: str | None, against: Snapshot | None) -> None:
    known = " and ".join(ENGINES.values())
    if to not in ENGINES:
        raise Refused(f"--to {to} is not known; the map speaks of {known}")
    if tuned.engine not in ENGINES:
        raise Refused(f"{tuned.name} runs {tuned.engine or 'an unknown engine'}; the map speaks of {known}")
    if version is not None and number(version) is None:
        raise Refused(f"--version {version} is no release such as {tables.newest(to)}")
    if against is not None and against.engine not in (to, None):
        raise Refused(f"{against.name} runs {against.engine}, not {to}; --against takes the side to port to")
    if not tuned.settings:
        raise Refused(f"{tuned.name} says nothing of its settings: no launch line, no configuration, no log of a start")


def _defaults(to: str, release: str, version: str | None, against: Snapshot | None) -> dict[str, Setting]:
    """What the other side does by itself; of a server whose release nobody knows, what every release does."""
    unknown = version is None and against is not None and against.version is None
    return {s.key: s for s in (constant_defaults(to) if unknown else defaults(to, release))}


def _with_defaults(tuned: Snapshot) -> Snapshot:
    """The tuned side with what its release does by itself; of an unknown release, with what every release does."""
    usual = {s.key: s for s in constant_defaults(tuned.engine or "")} if tuned.version is None else {}
    usual.update({s.key: s for s in defaults(tuned.engine or "", tuned.version)})
    return replace(tuned, settings={**usual, **tuned.settings})


def _card(tuned: Snapshot, against: Snapshot | None, gpu: str | None) -> tuple[GpuSpec | None, GpuSpec | None, str]:
    """The cards of both sides, and what to say when they are others."""
    was = _first_card(tuned)
    if gpu is not None:
        now = spec_of(gpu) or next((s for s in specs() if s.id == gpu.lower()), None)
        if now is None:
            raise Refused(f"--gpu {gpu!r} is not known; write it as nvidia-smi does, or as an id such as h100-sxm")
    else:
        now = _first_card(against) if against is not None else None
        now = now or was
    if was is not None and now is not None and was.id != now.id:
        note = f"from {was.names[0]} to {now.names[0]}"
        if now.unified_memory:
            note += ": memory is shared with the host, so a fraction is of all of it"
        return was, now, note
    return was, now, ""


def _first_card(s: Snapshot) -> GpuSpec | None:
    names = s.gpu_names()
    return spec_of(names[0]) if names else None


def _world(s: Snapshot) -> int:
    """How many cards one launch takes."""

    def whole(key: str) -> int:
        found: Any = s.value(key)
        return found if isinstance(found, int) and not isinstance(found, bool) and 0 < found < 10**5 else 1

    shared = s.engine == "sglang" and (s.value("parallel.dp_attention") or whole("parallel.attn_dp_size") > 1)
    return whole("parallel.tp") * whole("parallel.pp") * (1 if shared else whole("parallel.dp"))


def _launch(m: Move, lines: list[rows.Line], unknown: list[tuple[str, ...]]) -> Launch:
    total = Spelled()
    for line in lines:
        total += replace(line.spelled, missing="", first="")
    flags = _ordered(m, total.flags)
    model = dict(part for line in lines for part in line.parts).get("model.path", m.value("model.path"))
    serve = next((f[1] for f in flags if f[0] == "--port" and len(f) > 1), "")
    return Launch(
        engine=m.engine,
        version=m.version,
        model=str(model) if model else None,
        flags=(*flags, *unknown) if m.same else flags,
        configs=configs(total.keys),
        env=dict(total.env),
        unknown=() if m.same else tuple(unknown),
        secrets=leftovers.secrets(m),
        gpus=m.cards,
        port=int(serve) if serve.isdigit() and len(serve) < 6 else None,
    )


MODEL_FLAGS = ("--model", "--model-path")


def _ordered(m: Move, flags: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """Each flag once, the last saying of it, in the order of settings.yaml; the model is written first by itself."""
    from dflash_doctor.settings import SETTINGS

    place: dict[str, int] = {}
    for i, row in enumerate(SETTINGS.values()):
        for s in row.spellings(m.engine):
            if s.flag:
                place.setdefault(s.flag, i)
    last = {f[0]: f for f in flags if f[0] not in MODEL_FLAGS}
    return tuple(sorted(last.values(), key=lambda f: place.get(f[0].replace("--no-", "--"), len(place))))


def _notes(m: Move, version: str | None, against: Snapshot | None) -> list[str]:
    notes = []
    if version is None and (against is None or against.version is None):
        notes.append(f"no release of {ENGINES[m.engine]} is named: written for {m.version}")
    newest = number(tables.newest(m.engine)) or ()
    if (number(m.version) or ()) > newest:
        notes.append(f"{ENGINES[m.engine]} {m.version} is newer than the map: taken to be as {tables.newest(m.engine)}")
    if m.engine == "sglang" and not m.same:
        notes.append("SGLang serves /metrics only with --enable-metrics")
    return notes


def _gaps(tuned: Snapshot) -> tuple[Gap, ...]:
    if tuned.asked:
        return ()
    return (Gap("launch line", "not in the capture: what is no default of this release is taken to have been set"),)
