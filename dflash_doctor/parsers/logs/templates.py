"""A line reduced to what it says, numbers, paths and ids masked: the same warning of two starts is the same text."""

from __future__ import annotations

import re

LONGEST = 240  # characters of a template; a longer text differs by its data, not by what it says

# ordered: what is masked first is not read again as a number
MASKS = (
    (re.compile(r"https?://\S+"), "<url>"),
    (re.compile(r"\d+%\s*\|[^|]*\|.*"), "<bar>"),  # 100%|██████████| 35/35 [00:03<00:00, 11.2it/s]
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<addr>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<id>"),
    # /opt/venv/lib/python3.12/site-packages/x.py, ~/.cache/vllm, but not and/or nor tokens/s
    (re.compile(r"(?:(?<=[\s'\"=(:,])|^)~?/[\w.@+=,-]+(?:/[\w.@+=,\[\]-]*)*"), "<path>"),
    # model.layers.0.self_attn.q_proj.weight, lm_head.weight: which of the parameters does not matter
    (re.compile(r"\b[A-Za-z_]{2}\w*(?:\.\w+)*\.(?:\d+(?:\.\w+)+|weight|bias|\w*weight_\w+|\w*scale)\b"), "<param>"),
    # cmpl-9796225a7a768711-0-a7d9148d, 6f2c1b0a: a word of hex digits and dashes with a digit in it
    (
        re.compile(r"\b(?:cmpl|chatcmpl|embd|req|rid)-[\w-]+|\b(?:resp|msg|call|batch)_(?=[a-z]*\d)[0-9a-z]{8,}\b"),
        "<id>",
    ),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,}\b"), "<id>"),
    # tp0, rank3, gpu1: who said it, not what; but FP8, Qwen3 and V2 are words
    (re.compile(r"\b(?P<who>rank|gpu|node|worker|device|tp|dp|pp|ep|engine)_?\d+\b", re.I), r"\g<who>#"),
    (re.compile(r"(?<![A-Za-z_\d])\d+(?:[.,]\d+)*"), "#"),
    (re.compile(r"#(?:, ?#)+"), "#, …"),  # a list of numbers of any length is one thing
)


def template(text: str) -> str:
    """What the text says, without the data of this one line."""
    text = text[: LONGEST * 2]
    for mask, word in MASKS:
        text = mask.sub(word, text)
    return " ".join(text.split())[:LONGEST]
