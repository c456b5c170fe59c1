"""How each Hugging Face architecture with gated MLPs and rotary positions names its parts.

Each function gives fields of a Transformer; defaults are those of the family's class in transformers. Keys
whose omission would leave a shape to guesswork are required.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from podsim.workload.config_json import Config

Fields = dict[str, Any]


def common(c: Config, *, length: int = -1) -> Fields:
    """What every family has, under all its names; `length` is the class default of the sequence, if any."""
    return {
        "layers": c.integer("layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers"),
        "hidden": c.integer("hidden", "hidden_size", "n_embd", "d_model", "n_embed"),
        "heads": c.integer("heads", "num_attention_heads", "n_head", "n_heads", "num_heads"),
        "vocab": c.integer("vocab", "vocab_size"),
        "sequence": trained_length(c, default=length),
    }


def trained_length(c: Config, *, default: int = -1) -> int:
    """Tokens per training sequence: the length before any later stretching of the rotary positions."""
    longest = c.integer(
        "sequence", "max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length",
        "max_sequence_length", "seq_len", "model_max_length", "max_seq_length", "max_source_positions", default=default,
    )  # fmt: skip
    scaling = c.table("rope_scaling") if c.value("rope_scaling") is not None else c.table("rope_parameters")
    original = "original_max_position_embeddings"
    first = c.integer("sequence", original, default=longest)
    return min(longest, first, scaling.integer("sequence", original, default=longest))


def has_dropout(c: Config, *names: str, default: float = 0.0) -> bool:
    """Whether any of these dropouts is above zero."""
    return max(c.probability(name, default=default) for name in names) > 0


def _gated_fields(c: Config, *, bias: bool = False) -> Fields:
    """The layer that LLaMA introduced: RMSNorm, rotary positions, a gated MLP, no biases."""
    return common(c) | {
        "kv_heads": c.integer("kv_heads", "num_key_value_heads", default=0),
        "head_dim": c.integer("head_dim", "head_dim", default=0),
        "ffn": c.integer("ffn", "intermediate_size"),
        "gated": True,
        "activation": c.text("hidden_act", "hidden_activation", default="silu"),
        "norm": "rmsnorm",
        "position": "rope",
        "qkv_bias": bias,
        "proj_bias": bias,
        "mlp_bias": False,
        "tied": c.flag("tie_word_embeddings", default=False),
    }


def _window(c: Config, *, default: int = 0) -> tuple[int, ...]:
    """One window for all layers; a null one is none."""
    window = c.integer("sequence", "sliding_window", default=0 if c.has_key("sliding_window") else default)
    return (window,) if window else ()


def _typed_windows(c: Config, layers: int, window: int) -> tuple[int, ...] | None:
    """Windows from a list of layer types; None if there is no list."""
    kinds = c.items("layer_types")
    if not kinds:
        return None
    if len(kinds) != layers or any(kind not in ("full_attention", "sliding_attention") for kind in kinds):
        c.complain(f"layer_types must name full_attention or sliding_attention for each of {layers} layers")
        return None
    return tuple(window if kind == "sliding_attention" else 0 for kind in kinds)


def _qwen_windows(c: Config, layers: int) -> tuple[int, ...]:
    """Qwen: windows above `max_window_layers`, and only if switched on."""
    kinds = c.value("layer_types")
    if not c.flag("use_sliding_window", default=False) or kinds == []:
        return ()
    window = c.integer("sequence", "sliding_window", default=4096)
    full = c.integer("layers", "max_window_layers", default=28, least=0)
    typed = _typed_windows(c, layers, window)
    if typed is not None:
        return typed
    return tuple(0 if i < full else window for i in range(layers))


def qwen2(c: Config) -> Fields:
    """Qwen 1.5, 2, 2.5: LLaMA with biases on queries, keys and values."""
    fields = _gated_fields(c)
    return fields | {"qkv_bias": True, "windows": _qwen_windows(c, fields["layers"])}


def qwen3(c: Config) -> Fields:
    """Qwen 3: LLaMA with norms on the heads of queries and keys."""
    fields = _gated_fields(c, bias=c.flag("attention_bias", default=False))
    fields["head_dim"] = fields["head_dim"] or 128
    return fields | {"qk_norm": "head", "windows": _qwen_windows(c, fields["layers"])}


def _qwen_mixture(c: Config, layers: int) -> Fields:
    step = c.integer("layers", "decoder_sparse_step", default=1)
    plain = set(c.indices("mlp_only_layers"))
    return {
        "experts": c.integer("experts", "num_experts", "num_local_experts"),
        "top_k": c.integer("top_k", "num_experts_per_tok"),
        "expert_ffn": c.integer("expert_ffn", "moe_intermediate_size"),
        "dense_layers": tuple(i for i in range(layers) if i in plain or (i + 1) % step),
    }


def qwen2_moe(c: Config) -> Fields:
    """Qwen 1.5, 2 with a mixture: one gated shared expert."""
    fields = qwen2(c)
    shared = c.integer("shared_ffn", "shared_expert_intermediate_size")
    mixture = _qwen_mixture(c, fields["layers"])
    return fields | mixture | {"shared_ffn": shared, "shared_experts": 1, "shared_gate": True}


def qwen3_moe(c: Config) -> Fields:
    """Qwen 3 with a mixture: no shared expert."""
    fields = _gated_fields(c, bias=c.flag("attention_bias", default=False)) | {"qk_norm": "head"}
    windows = _window(c) if c.flag("use_sliding_window", default=False) else ()
    return fields | _qwen_mixture(c, fields["layers"]) | {"windows": windows}


def gemma(c: Config) -> Fields:
    """Gemma 1: LLaMA with wide heads, GeGLU and tied embeddings."""
    fields = _gated_fields(c, bias=c.flag("attention_bias", default=False))
    gate = c.text("hidden_activation", "hidden_act", default="gelu_pytorch_tanh")
    tied = c.flag("tie_word_embeddings", default=True)
    return fields | {"head_dim": fields["head_dim"] or 256, "activation": gate, "tied": tied}


def gemma2(c: Config) -> Fields:
    """Gemma 2: norms on both sides of each branch, a window in every other layer."""
    window = c.integer("sequence", "sliding_window", default=4096)
    fields = gemma(c)
    typed = _typed_windows(c, fields["layers"], window)
    return fields | {"sandwich_norms": True, "windows": typed or (window, 0)}


def gemma3(c: Config) -> Fields:
    """Gemma 3, text: norms of queries and keys, five windowed layers to each full one.

    Its smaller shapes are written without what equals the class defaults: heads, vocabulary, length.
    """
    defaults = {"num_attention_heads": 8, "vocab_size": 262_208, "max_position_embeddings": 131_072,
                "num_key_value_heads": 4, "head_dim": 256}  # fmt: skip
    full = replace(c, defaults={**c.defaults, **defaults})
    window = c.integer("sequence", "sliding_window", default=4096)
    period = c.integer("layers", "sliding_window_pattern", "_sliding_window_pattern", default=6)
    fields = gemma(full)
    typed = _typed_windows(c, fields["layers"], window)
    return fields | {
        "sandwich_norms": True,
        "qk_norm": "head",
        "windows": typed or (*(period - 1) * (window,), 0),
    }


MODERN = {
    "qwen2": qwen2,
    "qwen2_moe": qwen2_moe,
    "qwen3": qwen3,
    "qwen3_moe": qwen3_moe,
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3_text": gemma3,
}
