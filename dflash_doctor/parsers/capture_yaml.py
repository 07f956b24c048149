"""capture.yaml: where and when a capture was taken, and what could not be seen then.

host: gpu-a
taken_at: 2026-05-06T10:20:00Z
engine: vllm
note: the tuned deployment
gaps: [{what: gpu, why: no driver}, kernel log was not readable]
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timezone
from typing import Any

from dflash_doctor.model import Facts, Gap, Unreadable
from dflash_doctor.parsers.documents import compose_yaml

READS: tuple[str, ...] = ("capture.yaml",)

LONGEST = 2000  # characters of one fact; a note is a sentence


def parse(text: str, source: str) -> Facts:
    """The facts of one visit. Raises Unreadable when the file is no YAML mapping."""
    whole, _ = compose_yaml(text, "facts about a capture")
    if not isinstance(whole, Mapping):
        raise Unreadable("it is no YAML mapping: expected `host: …`, `taken_at: …`")
    host = {str(k)[:100]: v for k, raw in whole.items() if k != "gaps" and (v := _value(raw)) is not None}
    if isinstance(host.get("engine"), str):
        host["engine"] = host["engine"].strip().lower()
    return Facts(host=host, gaps=tuple(_gaps(whole.get("gaps"))))


def _value(raw: Any) -> Any:
    """A plain value, or a short list of them; times as ISO text, in UTC where a zone was given."""
    if isinstance(raw, datetime):
        if raw.tzinfo is None:
            return raw.isoformat(timespec="seconds")
        return raw.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
    if isinstance(raw, date):
        return raw.isoformat()
    if isinstance(raw, str):
        return raw.strip()[:LONGEST] or None
    if isinstance(raw, (bool, int, float)):
        return raw
    if isinstance(raw, list):
        return [v for r in raw[:64] if (v := _value(r) if not isinstance(r, (list, Mapping)) else _flat(r)) is not None]
    return _flat(raw)


def _flat(raw: Any) -> dict[str, Any] | None:
    """A mapping of plain values; anything deeper is not a fact about a visit."""
    if not isinstance(raw, Mapping):
        return None
    return {str(k)[:100]: _value(v) for k, v in list(raw.items())[:64] if not isinstance(v, (list, Mapping))}


def _gaps(raw: Any) -> list[Gap]:
    found = []
    for gap in raw if isinstance(raw, list) else [raw]:
        if isinstance(gap, str) and gap.strip():
            found.append(Gap("capture", gap.strip()[:LONGEST]))
        elif isinstance(gap, Mapping) and ("why" in gap or "what" in gap):
            found.append(Gap(str(_value(gap.get("what")) or "capture"), str(_value(gap.get("why")) or "not seen")))
    return found
