"""What was asked of the server and what it answered, and secrets: both are taken out, only their length stays."""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

from dflash_doctor.bundle.aliases import Aliases
from dflash_doctor.bundle.names import Hides

MASK = "***"
ID = 64  # characters: ids of requests and prompts are shorter
KEY_BLOCK = re.compile(r"-----BEGIN ([A-Z ]{0,30})PRIVATE KEY-----[^-]{0,20000}-----END \1PRIVATE KEY-----")
# keys under which engines and load tools write what people said
KEYS = (
    "prompt", "prompts", "text", "texts", "content", "reasoning_content", "input_text", "input_texts", "output_text",
    "output_texts", "generated_text", "generated_texts", "completion", "instruction", "system_prompt", "user_prompt",
    "messages",
)  # fmt: skip
IDS = ("prompt_token_ids", "input_ids", "origin_input_ids", "output_ids")
# prompt: 'Say "hi"', params=…   text='…'   "content": "…", as vLLM and SGLang log requests with --enable-log-requests
STRING = r"""(?:'[^'\\\n]*(?:\\.[^'\\\n]*)*'|"[^"\\\n]*(?:\\.[^"\\\n]*)*")"""
NAMED = rf"""(?<![\w.-])(?:\\{{0,3}}["'])?(?:{"|".join(KEYS)})(?:\\{{0,3}}["'])?\s?[:=]\s?"""
QUOTED = re.compile(rf"({NAMED}\[?)({STRING}(?:,\s?{STRING})*)")
ONE = re.compile(STRING)
# the same inside a JSON string: \"content\": \"…\"
ESCAPED = re.compile(rf"""({NAMED})(\\{{1,3}}")((?:[^\\\n]|\\{{1,3}}[^"\\\n])+)(?=\\{{1,3}}")""")
TOKENS = re.compile(rf"""((?<![\w])["']?(?:{"|".join(IDS)})["']?\s?[:=]\s?)\[([\d, ]+)\]""")
OURS = re.compile(r'\A\s*\{\s*"schema":\s*"dflash-doctor/')  # our load holds ids and hashes of texts, no text


class Step(Protocol):
    """One pass over a text."""

    def __call__(self, text: str, file: str, aliases: Aliases) -> str: ...


def without_secrets(hider: Hides) -> Step:
    """Masks what the collector masks on hosts, for captures that it did not make."""

    def step(text: str, file: str, aliases: Aliases) -> str:
        before = text.count(MASK)
        out = KEY_BLOCK.sub(MASK, hider.text(text))
        if (new := out.count(MASK) - before) > 0:
            aliases.count("secret", "", MASK, file, new)
        return out

    return step


def without_prompts(text: str, file: str, aliases: Aliases) -> str:
    """Masks texts of prompts and answers, and their token ids, which are the same text."""
    if OURS.match(text) or file.endswith(".yaml"):
        return text
    if file.startswith("load") and file.endswith(".json"):
        text = _document(text, file, aliases)

    def one(m: re.Match[str]) -> str:
        said, quote = m.group()[1:-1], m.group()[0]
        return f"{quote}{_length(said, file, aliases)}{quote}" if _said(said) else m.group()

    def escaped(m: re.Match[str]) -> str:
        return f"{m[1]}{m[2]}{_length(m[3], file, aliases)}" if _said(m[3]) else m.group()

    def numbers(m: re.Match[str]) -> str:
        aliases.count("prompt text", "", "[]", file)
        return f"{m[1]}[]"

    text = QUOTED.sub(lambda m: m[1] + ONE.sub(one, m[2]), ESCAPED.sub(escaped, text))
    return TOKENS.sub(numbers, text)


def _said(text: str) -> bool:
    """A single word or an id is no prompt, unless its script has no spaces; what was masked before is done."""
    return (" " in text.strip() or not text.isascii() or len(text) > ID) and not text.startswith("[prompt of ")


def _length(text: str, file: str, aliases: Aliases) -> str:
    aliases.count("prompt text", "", "[prompt of N characters]", file)
    return f"[prompt of {len(text)} characters]"


def _document(text: str, file: str, aliases: Aliases) -> str:
    """Results of a load tool: texts stand in lists, deep inside."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):  # many documents in lines: the patterns see to them
        return text
    try:
        done = _tree(data, "", file, aliases)
        return text if done == data else json.dumps(done, ensure_ascii=False)
    except RecursionError:
        return text


def _tree(data: Any, key: str, file: str, aliases: Aliases) -> Any:
    if isinstance(data, dict):
        return {k: _tree(v, k, file, aliases) for k, v in data.items()}
    if isinstance(data, list):
        return [_tree(v, key, file, aliases) for v in data]
    if isinstance(data, str) and key in KEYS and _said(data):
        return _length(data, file, aliases)
    return data
