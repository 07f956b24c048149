"""model_config.json, draft_config.json: the config.json of the model and of the drafter, as Hugging Face writes it.

    {"architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32,
     "num_key_value_heads": 8, "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8"}}

They say how many bytes a step must read, and whether a drafter was made for this target.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dflash_doctor.model import Evidence, Facts, Setting, Unreadable
from dflash_doctor.parsers.documents import read_json

READS: tuple[str, ...] = ("model_config.json", "draft_config.json")

# what is kept -> its names over model families, the first that is there
SHAPE = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "intermediate_size": ("intermediate_size", "ffn_hidden_size"),
    "heads": ("num_attention_heads", "n_head"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "multi_query_group_num"),
    "head_dim": ("head_dim",),
    "experts": ("num_experts", "n_routed_experts", "num_local_experts"),
    "experts_per_token": ("num_experts_per_tok", "moe_topk", "num_experts_per_token"),
    "moe_intermediate_size": ("moe_intermediate_size",),
    "vocab_size": ("vocab_size",),
    "max_position": ("max_position_embeddings", "seq_length"),
    "sliding_window": ("sliding_window",),
    "dtype": ("dtype", "torch_dtype"),
    "model_type": ("model_type",),
    "block_size": ("block_size",),  # DFlash drafters: tokens of one block, the bonus token counted
}


def parse(text: str, source: str) -> Facts:
    """The shape of one model. Raises Unreadable when the file is no JSON object."""
    whole = read_json(text, "a model configuration")
    if not isinstance(whole, Mapping):
        raise Unreadable("it is no JSON object, so no config.json of a model")
    # models that also see or hear keep the text model's shape one level down
    nested = (whole.get(k) for k in ("text_config", "llm_config", "language_config"))
    inner: Mapping[str, Any] = next((n for n in nested if isinstance(n, Mapping)), {})
    shape = {name: v for name, spelled in SHAPE.items() if (v := _first((inner, whole), spelled)) is not None}
    quantized = whole.get("quantization_config") or inner.get("quantization_config")
    if isinstance(quantized, Mapping) and isinstance(quantized.get("quant_method"), str):
        shape["quantization"] = quantized["quant_method"][:100]
    named = whole.get("architectures")
    if isinstance(named, list) and named and isinstance(named[0], str):
        shape["architecture"] = named[0][:200]
    if not shape:
        raise Unreadable("nothing in it speaks of a model's shape")
    return _facts(shape, source)


def _first(places: tuple[Mapping[str, Any], ...], spelled: tuple[str, ...]) -> Any:
    for place in places:
        for name in spelled:
            value = place.get(name)
            if isinstance(value, str):
                return value[:100]
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return value
    return None


def _facts(shape: dict[str, Any], source: str) -> Facts:
    if source.startswith("draft"):
        return Facts(host={"draft_config": shape})
    said = shape.get("architecture")
    where = Evidence(source, f"architectures: {said}")
    settings = (Setting("model.architecture", said, "effective", "architectures", where),) if said else ()
    return Facts(host={"model_config": shape}, settings=settings)
