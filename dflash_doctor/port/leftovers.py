"""What no row of the map speaks of: variables of libraries, flags nobody knows, secrets that were hidden.

Nothing is dropped in silence: a variable goes along or is said to mean nothing there, an unknown flag is carried
through with a mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dflash_doctor.model import Setting
from dflash_doctor.port import conventions, phrases, tables
from dflash_doctor.port.move import Move
from dflash_doctor.port.nouns import ENGINES, Row
from dflash_doctor.port.rows import Line
from dflash_doctor.port.spell import Spelled
from dflash_doctor.settings import HIDDEN, SETTINGS, speed_weight
from dflash_doctor.settings.rows import ENGINE_VARIABLES, by_variable

# of the host a server runs on: the other side's own go before
HOST_BOUND = (
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA", "UCX_NET_DEVICES",
)  # fmt: skip


def variables(m: Move) -> Iterator[Line]:
    """The environment, variable by variable."""
    there = m.against.asked if m.against is not None else {}
    names = [k[4:] for k in m.tuned.asked if k.startswith("env.")]
    names += [k[4:] for k in there if k.startswith("env.") and k[4:] not in names]
    for name in names:
        line = _variable(m, name, m.tuned.asked.get(f"env.{name}"), there.get(f"env.{name}"))
        if line is not None:
            yield line


def _variable(m: Move, name: str, was: Setting | None, now: Setting | None) -> Line | None:
    key = f"env.{name}"
    neutral = by_variable(m.source).get(name)
    if was is not None and neutral is not None and not neutral[0].key.startswith("env."):
        return None  # another row speaks of it
    title = SETTINGS[key].title if key in SETTINGS else name
    concept = SETTINGS[key].port if key in SETTINGS else ""
    row = Row(
        key, title, concept, None if was is None else was.value, "not set" if was is None else "set", "",
        None if now is None else now.value, "not set" if now is None else "set", "carried over", "",
        speed_weight(key),
    )  # fmt: skip
    if was is None:
        return _only_there(m, name, row)
    spelled = Spelled(env={name: str(was.value)})
    if _means_nothing(m, name):
        wanted = conventions.want(m, key, was.value)
        if wanted.merged:
            return Line(replace(row, needs=wanted.merged, why=f"said by {wanted.merged}"))
        why = tables.hint(key, m.engine) or f"{ENGINES[m.engine]} does not read {name}"
        return Line(replace(row, status="no equivalent", why=why))
    if key in SETTINGS and m.same:
        written = phrases.say(m, key, was.value)
        if written.missing:
            return Line(replace(row, status="no equivalent", why=written.missing))
    if now is None:
        why = "of the host it ran on" if name in HOST_BOUND else ""
        return Line(replace(row, needs=f"{name}={was.value}", why=why), spelled)
    if str(now.value) == str(was.value):
        return Line(replace(row, status="already so", needs=f"{name}={was.value}"), spelled)
    if name in HOST_BOUND:
        why = "the other host's own is kept"
        return Line(replace(row, status="already so", why=why), Spelled(env={name: str(now.value)}))
    return Line(replace(row, status="differs", needs=f"{name}={was.value}"), spelled)


def _means_nothing(m: Move, name: str) -> bool:
    """A variable of the tuned side's engine that the other engine does not read."""
    return not m.same and name.startswith(ENGINE_VARIABLES) and name not in by_variable(m.engine)


def _only_there(m: Move, name: str, row: Row) -> Line | None:
    if m.against is None or m.against.engine != m.engine:
        return None
    neutral = by_variable(m.engine).get(name)
    if neutral is not None and not neutral[0].key.startswith("env."):
        return None
    if row.weight > 0.3 or name.startswith(ENGINE_VARIABLES):  # 0.3: what any variable is given that no row knows
        why = f"only this side sets it: the launch leaves {name} out"
        return Line(replace(row, status="differs", why=why))
    kept = Spelled(env={name: str(row.now)})
    return Line(replace(row, status="already so", needs=f"{name}={row.now}", why="kept as it is there"), kept)


# -- flags nobody knows -----------------------------------------------------------------------------------------------


def unknown(m: Move) -> Iterator[tuple[Row, tuple[str, ...]]]:
    """Flags of the tuned side that no row knows, with their words as they were typed."""
    for key, setting in m.tuned.asked.items():
        if not key.startswith("other."):
            continue
        words = _words(setting)
        why = "the map does not know it: carried through as it stands, check it by hand"
        now = None if m.against is None else m.against.value(key)
        yield (
            Row(
                key, key[6:].replace("_", " "), "", setting.value, "set", " ".join(words), now,
                "not set" if now is None else "set", "unknown", why, speed_weight(key),
            ),
            words,
        )  # fmt: skip


def _words(setting: Setting) -> tuple[str, ...]:
    name = setting.spelled or setting.key[6:]
    flag = name if name.startswith("-") else "--" + name.replace("_", "-")
    if setting.value is True or setting.value is False:
        return (flag,)
    return (flag, _text(setting.value))


def _text(value: Any) -> str:
    return str(value)


def secrets(m: Move) -> tuple[tuple[str, str], ...]:
    """Flags whose value was hidden on the host, and the variable to put it into."""
    found = []
    for key, setting in m.tuned.settings.items():
        if setting.value != HIDDEN or key not in SETTINGS:
            continue
        flags = [s.flag for s in SETTINGS[key].spellings(m.engine) if s.flag]
        if flags:
            found.append((flags[0], flags[0].lstrip("-").replace("-", "_").upper()))
    return tuple(found)
