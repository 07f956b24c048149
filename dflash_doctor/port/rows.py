"""The table: every setting of the tuned side, what the other side needs, and what it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from dflash_doctor.model import Setting
from dflash_doctor.port import conventions, memory, phrases, tables
from dflash_doctor.port.conventions import Want
from dflash_doctor.port.move import SILENT, Move
from dflash_doctor.port.nouns import ENGINES, ORDER, By, Row, Status
from dflash_doctor.port.spell import Spelled
from dflash_doctor.settings import HIDDEN, SETTINGS, alike, speed_weight
from dflash_doctor.settings.versions import number

# facts of a host, not things to ask for
FACTS = ("model.architecture", "comm.nccl_version", "host.device", "serve.model_tag", "serve.config", "engine.name")
TUNES = 0.3  # of speed_weight: a default of less is not worth a row, a flag of less may stay on the other side
# derived from others, which say it in full
MERGED = {
    "sglang": ("spec.num_steps", "spec.num_draft_tokens", "spec.block_size"),
    "vllm": (),
}  # fmt: skip
GRAPH_PARTS = (
    "cudagraph.decode_backend", "cudagraph.prefill_backend", "cudagraph.disable_decode", "cudagraph.disable_prefill",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A row, and what it puts on the launch."""

    row: Row
    spelled: Spelled = field(default_factory=Spelled)
    parts: tuple[tuple[str, Any], ...] = ()


@cache
def _place() -> dict[str, int]:
    return {key: i for i, key in enumerate(SETTINGS)}


def lines(m: Move) -> list[Line]:
    """All rows of one port, what has to be done first, then what cannot be, then what is so already."""
    asked_there = set(m.against.asked) if m.against is not None and m.against.engine == m.engine else set()
    keys = [k for k in SETTINGS if k in m.tuned.settings or k in asked_there]
    found = [line for key in keys if not key.startswith("env.") for line in _setting(m, key)]
    found += [*_depth_unknown(m), *_room_unsaid(m)]
    return sorted(found, key=lambda line: rank(line.row))


def rank(row: Row) -> tuple[int, float, int]:
    """Where a row stands in the table."""
    return ORDER.index(row.status), -row.weight, _place().get(row.key, len(_place()))


def _setting(m: Move, key: str) -> Iterator[Line]:
    value, by = m.value(key), m.by(key)
    if key in FACTS or value == HIDDEN or (m.against is not None and m.against.value(key) == HIDDEN):
        return
    there = m.against is not None and key in m.against.asked
    if by == "not set" or (by != "set" and there and speed_weight(key) < TUNES):
        yield from _only_there(m, key)
        return
    if value in SILENT or _said_in_full(m, key):
        return
    wanted = _on_card(m, conventions.want(m, key, value))
    if _of_drafts(key) and m.drafts and not m.drafts_there:
        wanted = Want(missing=f"{ENGINES[m.engine]} {m.version} does not draft by {m.value('spec.method')}")
    line = _judged(m, key, value, by, wanted)
    if line is not None:
        yield line


def _of_drafts(key: str) -> bool:
    return (key.startswith("spec.") and key != "spec.method") or key in (
        "attention.draft_backend",
        "cudagraph.draft_mode",
    )


def _said_in_full(m: Move, key: str) -> bool:
    """Whether other settings say this one."""
    if key in MERGED[m.source] and not m.same:
        return "spec.depth" in m.tuned.settings
    if key in GRAPH_PARTS:
        return "cudagraph.mode" in m.tuned.settings
    if m.same and m.source == "sglang":
        if key == "spec.depth":
            return any(k in m.tuned.settings for k in MERGED["sglang"])
        return key == "attention.fa_version"
    return False


# -- cards ------------------------------------------------------------------------------------------------------------


def _on_card(m: Move, wanted: Want) -> Want:
    """What the other side's cards can run of it."""
    if m.card is None or not wanted.parts:
        return wanted
    parts, whys, risky = [], [wanted.why] if wanted.why else [], wanted.risky
    for key, value in wanted.parts:
        rule = tables.card_rule(key, value, m.engine, m.card.compute_capability, m.card.nvlink)
        if rule is None:
            parts.append((key, value))
            continue
        risky = True
        whys.append(f"on {m.card.names[0].removeprefix('NVIDIA ')}: {rule.why}")
        if rule.keep:
            parts.append((key, value))
        elif rule.instead is not None:
            parts.append((key, rule.instead))
    why = "; ".join(dict.fromkeys(whys))
    if not parts:
        return Want(missing=why)
    return replace(wanted, parts=tuple(parts), why=why, risky=risky)


# -- one row ----------------------------------------------------------------------------------------------------------


def _judged(m: Move, key: str, value: Any, by: By, wanted: Want) -> Line | None:
    now, now_by = _now(m, key, wanted)
    row = Row(
        key, SETTINGS[key].title, SETTINGS[key].port, value, by, "", now, now_by, "carried over", wanted.why,
        speed_weight(key),
    )  # fmt: skip
    if key == "comm.custom_allreduce" and (refused := _no_custom_allreduce(m, value)):
        return Line(replace(row, status="risky", why=refused))
    if wanted.merged or wanted.needless:
        return _without_words(m, row, wanted)
    if wanted.missing:
        return Line(replace(row, status="no equivalent", why=wanted.missing)) if _worth(row) else None
    parts = tuple((part, _theirs(m, part, inner)) for part, inner in wanted.parts)
    spelled = Spelled()
    for part, inner in parts:
        spelled += phrases.say(m, part, inner)
    if spelled.missing:
        return _cannot(m, row, spelled) if _worth(row) else None
    agrees = all(_agrees(m, part, inner) for part, inner in parts)
    if not _shown(m, row, agrees=agrees):
        return None
    warned = "" if m.same else tables.warning(key, value, m.engine)
    status = _status(m, row, agrees=agrees, risky=wanted.risky or bool(warned))
    kept = "kept as it is there" if parts != wanted.parts else ""
    why = "; ".join(w for w in (warned, wanted.why, kept) if w) or _because(m, row, status)
    done = replace(row, status=status, needs=spelled.text(), why=why)
    return Line(done, spelled if _written(m, row, agrees=agrees) else Spelled(), parts)


def _theirs(m: Move, key: str, value: Any) -> Any:
    """Where a server runs and under which path its files lie is the other side's own."""
    there = m.against.settings.get(key) if m.against is not None else None
    if there is None or there.value in SILENT:
        return value
    same = SETTINGS[key].same
    return there.value if same == "any" or (same == "path" and alike(key, value, there.value)) else value


def _shown(m: Move, row: Row, *, agrees: bool) -> bool:
    """Whether a row is worth its line: what was set always, the rest when it differs and moves the speed."""
    if row.tuned_by == "set":
        return True
    if agrees or row.weight < TUNES or _idle(m, row.key):
        return False
    if m.same and row.tuned_by == "chosen" and row.now_by == "default":
        return _default_moved(m, row)  # else this release chooses the same way again
    if _held(row.key) and row.tuned_by == "chosen":
        return True
    if not _known(row.now) or row.now in SILENT:
        return False
    return m.same or _held(row.key) or (row.tuned_by == "chosen" and row.now_by in ("set", "chosen"))


def _idle(m: Move, key: str) -> bool:
    """Whether a setting nobody touched belongs to something that is not in use."""
    if key.startswith("comm."):
        return m.cards == 1
    if key.startswith("moe."):
        return not m.moe
    if key.startswith("spec.") and key != "spec.method":
        return not m.drafts
    parents = {"parallel.eplb_": "parallel.eplb", "parallel.dbo_": "parallel.enable_dbo", "lora.": "lora.enabled",
               "mem.offload_": "mem.cpu_offload_gb", "kv.offload_": "kv.offload"}  # fmt: skip
    return any(key.startswith(p) and not m.value(parent) for p, parent in parents.items())


def _default_moved(m: Move, row: Row) -> bool:
    usual = m.own_defaults.get(row.key)
    return usual is not None and _known(row.now) and not alike(row.key, usual.value, row.now)


def _written(m: Move, row: Row, *, agrees: bool) -> bool:
    """Whether it goes on the launch: what was set always, for defaults move; a default not where the engine chose."""
    if row.tuned_by == "set":
        return True
    if row.tuned_by == "chosen" and _held(row.key):
        return not (agrees and row.now_by == "default")
    return (m.same or _held(row.key)) and row.now_by == "default" and not agrees


def _status(m: Move, row: Row, *, agrees: bool, risky: bool) -> Status:
    if agrees:
        return "already so"
    if risky:
        return "risky"
    if row.tuned_by == "default" and _known(row.now) and row.now_by != "set":
        return "default changed"
    if m.against is not None and _known(row.now) and row.now_by != "default":
        return "differs"
    return "default changed" if row.tuned_by != "set" and _known(row.now) else "carried over"


def _without_words(m: Move, row: Row, wanted: Want) -> Line | None:
    """Nothing has to be written, unless the other side was told otherwise."""
    against = m.against is not None and row.now_by == "set" and not alike(row.key, row.tuned, row.now)
    if against and not wanted.merged:
        told = m.against.asked.get(row.key) if m.against is not None else None
        spelled = told.spelled if told is not None and told.spelled else str(row.now)
        return Line(replace(row, status="differs", needs="", why=f"leave {spelled} out: {wanted.needless}"))
    if row.tuned_by != "set":
        return None
    if wanted.merged:
        why = wanted.why or f"said by {wanted.merged}"
        return Line(replace(row, status="carried over", needs=wanted.merged, why=why))
    return Line(replace(row, status="already so", why=wanted.needless))


def _cannot(m: Move, row: Row, spelled: Spelled) -> Line:
    if spelled.first:
        why = f"needs {ENGINES[m.engine]} {spelled.first} or later: {spelled.missing}"
        return Line(replace(row, status="needs version", why=why))
    why = spelled.missing
    if why.endswith("has no such setting") and not m.same and (caveat := tables.caveat(row.concept)):
        why = f"{why}; {caveat}"
    return Line(replace(row, status="no equivalent", why=why))


def _worth(row: Row) -> bool:
    """Whether a setting that cannot be carried over is worth a row."""
    return row.tuned_by == "set"


def _only_there(m: Move, key: str) -> Iterator[Line]:
    """A setting that only the other side was given: kept where it does not tune, left out where it does."""
    if m.against is None:
        return
    now, now_by = m.now(key)
    weight = speed_weight(key)
    row = Row(key, SETTINGS[key].title, SETTINGS[key].port, None, "not set", "", now, now_by, "already so", "", weight)
    if key in _derived_there(m):
        return
    if weight >= TUNES:
        why = f"only this side sets it: the launch leaves {_typed(m.against.asked[key], m.engine)} out"
        yield Line(replace(row, status="differs", why=why))
        return
    here = replace(m, tuned=m.against)
    spelled = phrases.say(here, key, now)
    if not spelled.missing and now not in SILENT:
        yield Line(replace(row, needs=spelled.text(), why="kept as it is there"), spelled, ((key, now),))


def _typed(setting: Setting, engine: str) -> str:
    """How it was given, down to the key of a JSON option."""
    inner = [s.written for s in SETTINGS[setting.key].spellings(engine) if s.written.startswith(setting.spelled + ".")]
    return inner[0] if inner else setting.spelled


def _derived_there(m: Move) -> tuple[str, ...]:
    """Settings of the other side that follow from those it was given."""
    return (*GRAPH_PARTS, *MERGED[m.engine], "attention.fa_version", "parallel.ep", "model.tokenizer")


def _no_custom_allreduce(m: Move, value: Any) -> str:
    if not value or m.card is None or m.cards <= 2 or m.card.nvlink != 0:
        return ""
    if m.was is not None and m.was.nvlink == 0:
        return ""  # it did not run on the tuned side either
    here = number(m.version) or ()
    ipc = {
        "vllm": ((0, 32), "VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC=1 is worth a try"),
        "sglang": ((0, 5, 22), "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE=1 is worth a try"),
    }[m.engine]
    instead = f"; {ipc[1]}" if here >= ipc[0] else ""
    name = m.card.names[0].removeprefix("NVIDIA ")
    return f"{m.cards} {name} have no NVLink: the engine turns its own all-reduce off and NCCL takes over{instead}"


# -- agreement --------------------------------------------------------------------------------------------------------


def _now(m: Move, key: str, wanted: Want) -> tuple[Any, By]:
    first = wanted.parts[0][0] if wanted.parts else key
    return m.now(first)


def _agrees(m: Move, key: str, value: Any) -> bool:
    now, _ = m.now(key)
    if not _known(now):
        return False
    if now in SILENT:  # "auto" agrees with nothing in particular
        return False
    if isinstance(value, float) and isinstance(now, (int, float)):
        return abs(value - now) < 0.005
    return alike(key, value, now)


def _known(now: Any) -> bool:
    return now is not None and now != ()


def _held(key: str) -> bool:
    return key in tables.section("hold")


def _because(m: Move, row: Row, status: Status) -> str:
    if status == "default changed":
        who = f"{ENGINES[m.source]} {m.tuned.version or ''}".strip()
        how = "chose it at start" if row.tuned_by == "chosen" else "does so by default"
        there = f"{ENGINES[m.engine]} {m.version}"
        chose = "chose otherwise at start" if row.now_by == "chosen" else "does otherwise"
        return f"nobody set it: {who} {how}, {there} {chose}"
    if row.tuned_by == "chosen":
        return f"{ENGINES[m.source]} chose it at start"
    return ""


def _depth_unknown(m: Move) -> Iterator[Line]:
    """A method without a depth: SGLang chooses one at start, vLLM has to be told."""
    if m.same or not m.drafts_there or "spec.depth" in m.tuned.settings:
        return
    depth = conventions.usual_depth(m.value("spec.method"))
    now, now_by = m.now("spec.depth")
    spelled = phrases.say(m, "spec.depth", depth)
    why = f"{ENGINES[m.source]} chooses the depth at start and nothing here says which; {depth} is a beginning"
    row = Row("spec.depth", SETTINGS["spec.depth"].title, "spec.depth", None, "chosen", spelled.text(), now, now_by,
              "risky", why, speed_weight("spec.depth"))  # fmt: skip
    yield Line(row, spelled, (("spec.depth", depth),))


def _room_unsaid(m: Move) -> Iterator[Line]:
    """A tuned side that left the memory fraction to its engine, and another side with room for fewer tokens."""
    key = "mem.fraction"
    if m.by(key) == "set" or m.against is None or m.same:
        return
    held, holds = memory.pool(m.tuned).tokens, memory.pool(m.against).tokens
    found = memory.fraction(m) if held and holds and holds < held * (1 - memory.CLOSE) else None
    if found is None:
        return
    now, now_by = m.now(key)
    spelled = phrases.say(m, key, found.value)
    row = Row(key, SETTINGS[key].title, key, m.value(key), m.by(key), spelled.text(), now, now_by,
              "differs" if found.sure else "risky", found.why, speed_weight(key))  # fmt: skip
    yield Line(row, spelled, ((key, found.value),))
