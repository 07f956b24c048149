"""`nvidia-smi -q` as text and `-q -x` as XML: the same tree, drawn twice.

    GPU 00000000:41:00.0                        <gpu id="00000000:41:00.0">
        Product Name     : NVIDIA RTX A6000         <product_name>NVIDIA RTX A6000</product_name>
        Clocks                                      <clocks>
            SM           : 1785 MHz                     <sm_clock>1785 MHz</sm_clock>

Names moved between drivers: smi_names.py holds every spelling. The XML's form is nvsmi_device_v10 to v13.dtd.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any
from xml.etree import ElementTree

from dflash_doctor.gpu_words import REASONS
from dflash_doctor.model import Facts, Gap, GpuReading
from dflash_doctor.parsers.card_values import value_of, with_mask
from dflash_doctor.parsers.smi_names import COUNTERS, LABELS, ROWS


@dataclass
class Card:
    """One GPU of the tree while it is being read."""

    id: str
    tree: dict[str, str] = field(default_factory=dict)
    processes: list[dict[str, str]] | None = None  # None: the print has no such section
    mig: list[dict[str, str]] = field(default_factory=list)


# -- XML --------------------------------------------------------------------------------------------------------------


ROOT, END = "<nvidia_smi_log", "</nvidia_smi_log>"


def xml(text: str, source: str) -> Facts:
    """`nvidia-smi -q -x`, once or again and again; what comes before a cut is kept."""
    readings: list[GpuReading] = []
    host: dict[str, Any] = {}
    gaps: list[Gap] = []
    at = text.find(ROOT)
    line = text.count("\n", 0, at) if at > 0 else 0
    prints = 0
    while at >= 0:
        following = text.find(ROOT, at + 1)
        piece = text[at : following if following >= 0 else len(text)]
        # what stands around the root (declaration, DOCTYPE, the next print's) is not needed
        one = _one(piece[: piece.find(END) + len(END)] if END in piece else piece, line, source)
        readings += [replace(r, t=r.t or float(prints)) for r in one.readings]
        host |= one.host
        gaps += one.gaps
        line, at, prints = line + piece.count("\n"), following, prints + 1
    return Facts(readings=tuple(readings), host=host, gaps=tuple(gaps))


class _Tree:
    """What the XML reader hands over, kept though the text may break off anywhere."""

    def __init__(self) -> None:
        self.root: ElementTree.Element | None = None
        self._open: list[ElementTree.Element] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        element = ElementTree.Element(tag, attributes)
        if self._open:
            self._open[-1].append(element)
        else:
            self.root = element
        self._open.append(element)

    def end(self, tag: str) -> None:
        self._open.pop()

    def data(self, text: str) -> None:
        if self._open and not len(self._open[-1]):
            self._open[-1].text = (self._open[-1].text or "") + text


def _one(text: str, above: int, source: str) -> Facts:
    tree = _Tree()
    parser = ElementTree.XMLParser(target=tree)
    cut = ""
    try:
        parser.feed(text)
        parser.close()
    except ElementTree.ParseError as e:
        cut = f"cut off or damaged in line {above + e.position[0]}: what follows is missing"
    if tree.root is None:
        return Facts()
    cards = [_card_of(gpu) for gpu in tree.root.findall("gpu")]
    top = {c.tag: (c.text or "").strip() for c in tree.root if len(c) == 0}
    return _facts(cards, top, cut, source)


def _card_of(gpu: ElementTree.Element) -> Card:
    card = Card(gpu.get("id", ""))
    for path, element in _leaves(gpu):
        card.tree[_older(path)] = element
    section = gpu.find("processes")
    if section is not None:
        card.processes = [_texts(p) for p in section.findall("process_info")]
    card.mig = [dict(_leaves(m)) for m in gpu.findall("mig_devices/mig_device")]
    return card


def _leaves(top: ElementTree.Element) -> Iterator[tuple[str, str]]:
    """Paths and texts of what has no children; six levels are all there are."""
    open_ = [("", child, 1) for child in top if child.tag != "processes"]
    while open_:
        above, element, depth = open_.pop()
        path = f"{above}/{element.tag}" if above else str(element.tag)
        if len(element) == 0:
            yield path, (element.text or "").strip()
        elif depth < 6:
            open_.extend((path, child, depth + 1) for child in element)


def _texts(element: ElementTree.Element) -> dict[str, str]:
    return {c.tag: (c.text or "").strip() for c in element}


# -- text -------------------------------------------------------------------------------------------------------------

# GPU 00000000:41:00.0
GPU = re.compile(r"GPU (?P<id>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*")
HEAD = re.compile(r"=+NVSMI LOG=+")


def log(text: str, source: str) -> Facts:
    """`nvidia-smi -q`: a tree by indentation."""
    if not HEAD.search(text[:1_000_000]) and not re.search(r"^ {4}Product Name +: ", text, re.M):
        return Facts()
    cards: list[Card] = []
    top: dict[str, str] = {}
    open_: list[tuple[int, str]] = []  # the labels above, with their indentation
    for line in text.splitlines():
        body = line.strip()
        if not body:
            continue
        gpu = GPU.fullmatch(line)
        if gpu:
            cards.append(Card(gpu["id"]))
            open_ = []
            continue
        indent = len(line) - len(line.lstrip())
        label, colon, said = (p.strip() for p in body.partition(" : ")) if " : " in body else (body, "", "")
        label = label.rstrip(":").strip().lower()[:80]
        open_ = [o for o in open_ if o[0] < indent][:8]
        if cards and indent:
            _place(cards[-1], "/".join([*(name for _, name in open_), label]), label, said if colon else None)
        elif colon and not indent:
            top[label.replace(" ", "_")] = said
        open_.append((indent, label))
    return _facts(cards, top, "", source)


def _place(card: Card, path: str, label: str, said: str | None) -> None:
    """One line of a card: a value, or a process under way."""
    if path.startswith("processes"):
        card.processes = card.processes if card.processes is not None else []
        if label == "process id" and said:
            card.processes.append({"pid": said})
        elif card.processes and said is not None:
            card.processes[-1][label] = said
    elif path.split("/")[0] == "mig device":
        # MIG Device -> Index, GPU Instance ID, Device Attributes/Shared/Multiprocessor count, FB Memory Usage/Total
        if path == "mig device":
            card.mig.append({})
        elif card.mig and said is not None:
            card.mig[-1].setdefault(label, said)
    elif said is not None:
        card.tree.setdefault(_older(path), said)


# -- both -------------------------------------------------------------------------------------------------------------


def _older(path: str) -> str:
    """Drivers before 535 said throttle."""
    return path.replace("clocks throttle reasons", "clocks event reasons").replace("throttle_reason", "event_reason")


def _facts(cards: list[Card], top: Mapping[str, str], cut: str, source: str) -> Facts:
    when = _time(top.get("timestamp", ""))
    readings = [GpuReading(i, when, None, _values(card), source) for i, card in enumerate(cards)]
    gaps = [Gap(source, cut)] if cut else []
    attached = top.get("attached_gpus", "")
    if not cut and attached.isdigit() and int(attached[:6]) > len(cards) > 0:
        gaps.append(Gap(source, f"it tells {len(cards)} of {attached} GPUs: cut off, or only some were asked for"))
    host: dict[str, Any] = {
        k: top[k] for k in ("driver_version", "cuda_version") if value_of(k, top.get(k)) is not None
    }
    slices = [_slice(i, m) for i, card in enumerate(cards) for m in card.mig]
    if slices:
        host["mig_devices"] = slices
    return Facts(readings=tuple(readings), host=host, gaps=tuple(gaps))


def _values(card: Card) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, spelled in ROWS.items():
        said = [value_of(key, card.tree[p]) for paths in spelled for p in paths if p in card.tree]
        if said:
            found[key] = next((v for v in said if v is not None), None)
    for word in REASONS.values():
        said_so = card.tree.get(f"clocks_event_reasons/clocks_event_reason_{word}") or card.tree.get(
            f"clocks event reasons/{LABELS.get(word, word.replace('_', ' '))}"
        )
        if said_so:
            found[f"clocks_event_reasons.{word}"] = value_of("", said_so)
    for word, label in COUNTERS.items():
        xml_name = f"clocks_event_reasons_counters/clocks_event_reasons_counters_{word}"
        counted = card.tree.get(xml_name) or card.tree.get(f"clocks event reasons counters/{label}")
        if counted:
            key = f"clocks_event_reasons_counters.{word}"
            found[key] = value_of(key, counted)
    if card.id:
        found.setdefault("pci.bus_id", card.id)
    if card.processes is not None:
        found["processes"] = [_process(p) for p in card.processes]
    return with_mask(found)


def _process(p: Mapping[str, str]) -> dict[str, Any]:
    pid = p.get("pid", "")
    memory = p.get("used_memory", p.get("used gpu memory"))
    return {
        "pid": int(pid) if pid.isdigit() and len(pid) < 12 else None,
        "name": (p.get("process_name") or p.get("name") or "")[:300],
        "type": p.get("type", ""),
        "used_memory": value_of("used_memory", memory),
    }


def _slice(gpu: int, m: Mapping[str, str]) -> str:
    """One MIG device in words."""
    sms = m.get("device_attributes/shared/multiprocessor_count") or m.get("multiprocessor count", "?")
    memory = m.get("fb_memory_usage/total") or m.get("total", "?")
    index = m.get("index", "?")
    return f"GPU {gpu} MIG device {index[:20]}: {sms[:20]} multiprocessors, {memory[:20]}"


def _time(text: str) -> float:
    """`Fri Nov  8 09:12:10 2024` as seconds; the zone is not said, and only differences matter."""
    try:
        return (
            datetime.strptime(" ".join(text.split()), "%a %b %d %H:%M:%S %Y").replace(tzinfo=timezone.utc).timestamp()
        )
    except ValueError:
        return 0.0
