"""How requests ask for their tokens, as engines that log requests print it.

Received request chatcmpl-0f3a: prompt: '…', params: SamplingParams(n=1, temperature=0.7, top_p=1.0, min_p=0.05, …   vLLM
Receive: obj=GenerateReqInput(…, sampling_params={'temperature': 0.7, 'max_new_tokens': 128}, …                    SGLang
"""  # noqa: E501

from __future__ import annotations

import re

from dflash_doctor.model import Signal, Snapshot

# what changes the distribution that drafts are held against, or the way they are verified
SHAPING = (
    "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
    "logprobs", "prompt_logprobs", "guided_decoding", "structured_outputs", "logit_bias", "bad_words", "n",
    "json_schema", "regex", "ebnf",
)  # fmt: skip
PARAMS = re.compile(r"(?:SamplingParams\(|sampling_params=\{)(?P<body>[^\n]{0,4000})")
ONE = re.compile(r"['\"]?(?P<name>\w+)['\"]?\s*[=:]\s*(?P<value>\[[^\]]*\]|[^,(){}\s]+)")
OFF = {"None", "[]", "0", "0.0", "-1"}  # spellings of "not used", where that is what they mean
ZERO_IS_OFF = ("min_p", "top_k", "presence_penalty", "frequency_penalty", "logprobs", "prompt_logprobs", "bad_words")


def asked(s: Snapshot) -> tuple[dict[str, str], Signal | None]:
    """Sampling parameters of the first logged request, and its line."""
    for signal in s.find("api.request_body_logging"):
        found = PARAMS.search(signal.evidence.text)
        if found:
            return {m["name"]: m["value"] for m in ONE.finditer(found["body"]) if m["name"] in SHAPING}, signal
    return {}, None


def changed(now: Snapshot, was: Snapshot) -> tuple[str, ...]:
    """Parameters that requests ask for now and did not when tuned: `min_p 0.0 -> 0.05`."""
    here, there = asked(now)[0], asked(was)[0]
    both = [k for k in here if k in there]
    return tuple(f"{k} {there[k]} -> {here[k]}" for k in both if _meant(k, here[k]) != _meant(k, there[k]))


def _meant(name: str, value: str) -> str:
    return "" if value in OFF and (name in ZERO_IS_OFF or value in ("None", "[]")) else value
