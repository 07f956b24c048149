"""Every parser, on the oddest short texts: facts or a reason, never a traceback."""

from __future__ import annotations

import pytest

from dflash_doctor import parsers
from dflash_doctor.model import Unreadable

ODD = [
    *("", " ", "\x0c", "\x1c\n", "\x85", "\u2028", "\n\n", "\x1b[0m", "\u202e"),
    *("#", "=", "KEY", "- ", "- {}", "- 1", "a: b", "---", "nan", "1e999", "GPU0", "X"),
    *("{", "[", "{}", "[]", "null", "0", '"x"', "[{}]", "[[]]", '{"a":1e999}', '{"data": []}', '{"rounds": []}'),
    *('{"samples": null}', '{"samples": [null]}', '{"samples":[{"gpus":[null]}]}', "<xml/>", "<nvidia_smi_log/>"),
    *("# scrape", "# scrape x", "vllm:x{ 1"),
]


@pytest.mark.parametrize("parser", parsers.ALL, ids=lambda p: p.__name__.rpartition(".")[2])
def test_odd_texts_give_facts_or_a_reason(parser):
    for text in ODD:
        try:
            parser.parse(text, parser.READS[0])
        except Unreadable:
            continue
