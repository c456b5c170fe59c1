"""How each Hugging Face architecture in the line of GPT-2, BERT and T5 names its parts.

Each function gives fields of a Transformer; defaults are those of the family's class in transformers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from podsim.workload.config_json import Config
from podsim.workload.families import Fields, common, has_dropout


def _tie_fields(c: Config, *, default: bool) -> Fields:
    return {"tied": c.flag("tie_word_embeddings", default=default)}


def _ffn(c: Config, *names: str) -> int:
    """Inner width of the MLP; absent or null is four times hidden."""
    return c.integer("ffn", *names, default=0)


def gpt2(c: Config) -> Fields:
    """GPT-2."""
    if c.flag("add_cross_attention", default=False):
        c.complain("add_cross_attention=True is not supported: remove it for the plain decoder")
    fields = common(c) | _tie_fields(c, default=True)
    return fields | {
        "ffn": _ffn(c, "n_inner", "intermediate_size"),
        "activation": c.text("activation_function", default="gelu_new"),
        "positions": fields["sequence"],
        "dropout": has_dropout(c, "resid_pdrop", "embd_pdrop", default=0.1),
    }


def gpt_neo(c: Config) -> Fields:
    """GPT-Neo: GPT-2 with a window in every other layer and no bias on queries, keys and values."""
    fields = common(c) | _tie_fields(c, default=True)
    kinds = _neo_kinds(c, fields["layers"])
    window = c.integer("sequence", "window_size", default=256)
    return fields | {
        "ffn": _ffn(c, "intermediate_size"),
        "activation": c.text("activation_function", default="gelu_new"),
        "positions": fields["sequence"],
        "qkv_bias": False,
        "windows": tuple(window if kind == "local" else 0 for kind in kinds),
        "dropout": has_dropout(c, "resid_dropout", "embed_dropout"),
    }


def _neo_kinds(c: Config, layers: int) -> list[str]:
    """Kinds of the layers, which `attention_types`, [[pattern, times], ...], gives in short."""
    kinds: list[object] = list(c.items("attention_layers"))
    if not kinds:
        for entry in c.items("attention_types"):
            match entry:
                case [list(pattern), int(times)] if 0 <= times <= layers:
                    kinds += pattern * times
                case _:
                    c.complain('attention_types must be like [[["global", "local"], 12]]')
                    return []
    if len(kinds) != layers or any(kind not in ("global", "local") for kind in kinds):
        c.complain(f"attention_types must give global or local for each of the {layers} layers")
        return []
    return [str(kind) for kind in kinds]


def gptj(c: Config) -> Fields:
    """GPT-J: parallel branches behind one norm; biases on the MLP and the logits only."""
    return common(c) | _tie_fields(c, default=False) | {
        "ffn": _ffn(c, "n_inner"),
        "activation": c.text("activation_function", default="gelu_new"),
        "position": "rope",
        "qkv_bias": False,
        "proj_bias": False,
        "head_bias": True,
        "parallel_residual": True,
        "shared_norm": True,
        "dropout": has_dropout(c, "resid_pdrop", "embd_pdrop"),
    }  # fmt: skip


def gpt_neox(c: Config) -> Fields:
    """GPT-NeoX, Pythia: parallel branches, each behind its own norm."""
    bias = c.flag("attention_bias", default=True)
    return common(c) | _tie_fields(c, default=False) | {
        "ffn": c.integer("ffn", "intermediate_size"),
        "activation": c.text("hidden_act", default="gelu"),
        "position": "rope",
        "qkv_bias": bias,
        "proj_bias": bias,
        "parallel_residual": c.flag("use_parallel_residual", default=True),
        "dropout": has_dropout(c, "hidden_dropout"),
    }  # fmt: skip


def opt(c: Config) -> Fields:
    """OPT: GPT with ReLU; its position table has two rows of padding; OPT-350m is the odd one.

    OPT-350m has its norms behind the residual sum, no final norm, and a narrow embedding.
    """
    first = c.flag("do_layer_norm_before", default=True)
    removed = c.flag("_remove_final_layer_norm", default=False)
    biased = c.flag("enable_bias", default=True)
    affine = c.flag("layer_norm_elementwise_affine", default=True)
    fields = common(c) | _tie_fields(c, default=True)
    return fields | {
        "ffn": c.integer("ffn", "ffn_dim", "intermediate_size"),
        "activation": c.text("activation_function", default="relu"),
        "positions": fields["sequence"] + 2,
        "embedding_width": c.integer("embedding_width", "word_embed_proj_dim", default=0),
        "norm_first": first,
        "final_norm": first and not removed,
        "norm_scale": affine,
        "norm_bias": affine,
        "qkv_bias": biased,
        "proj_bias": biased,
        "mlp_bias": biased,
        "dropout": has_dropout(c, "dropout", default=0.1),
    }


def bloom(c: Config) -> Fields:
    """BLOOM: GPT with ALiBi and a norm on the embedding."""
    return common(c, length=2048) | _tie_fields(c, default=True) | {
        "ffn": _ffn(c, "n_inner"),
        "activation": "gelu",
        "position": "alibi",
        "embedding_norm": True,
        "dropout": has_dropout(c, "hidden_dropout"),
    }  # fmt: skip


def falcon(c: Config, *, is_grouped: bool = False) -> Fields:
    """Falcon: parallel branches; one key head (7b), grouped ones and two norms (40b), or neither (rw).

    `is_grouped`: a config that does not say so is of the new architecture, as Falcon-40b by its first name.
    """
    grouped = c.flag("new_decoder_architecture", default=is_grouped)
    fields = common(c, length=2048) | _tie_fields(c, default=True)
    bias = c.flag("bias", default=False)
    parallel = c.flag("parallel_attn", default=True)
    kv_heads = 1 if c.flag("multi_query", default=True) else fields["heads"]
    groups = c.integer("kv_heads", "num_kv_heads", "n_head_kv", default=fields["heads"])
    if grouped:
        kv_heads = groups
    norms = c.integer("layers", "num_ln_in_parallel_attn", default=2 if grouped else 1)
    return fields | {
        "kv_heads": kv_heads,
        "ffn": _ffn(c, "ffn_hidden_size"),
        "activation": c.text("activation", default="gelu"),
        "position": "alibi" if c.flag("alibi", default=False) else "rope",
        "qkv_bias": bias,
        "proj_bias": bias,
        "mlp_bias": bias,
        "parallel_residual": parallel or grouped,
        "shared_norm": parallel and norms == 1,
        "dropout": has_dropout(c, "hidden_dropout"),
    }


def mpt(c: Config) -> Fields:
    """MPT of llm-foundry: GPT without biases, with ALiBi or learned positions; the MLP's width is a ratio."""
    attention = c.table("attn_config")
    fields = common(c) | _tie_fields(c, default=True)
    kind = attention.choice(
        "attn_type", ("multihead_attention", "multiquery_attention", "grouped_query_attention"),
        default="multihead_attention",
    )  # fmt: skip
    kv_heads = {"multiquery_attention": 1, "multihead_attention": fields["heads"]}.get(kind, 0)
    if kind == "grouped_query_attention":
        kv_heads = attention.integer("kv_heads", "kv_n_heads")
    c.table("ffn_config").choice("ffn_type", ("mptmlp",), default="mptmlp")
    ratio = c.integer("kv_heads", "expansion_ratio", default=4)
    bias = not c.flag("no_bias", default=True)
    alibi = attention.flag("alibi", default=True)
    rotary = attention.flag("rope", default=False)
    learned = c.flag("learned_pos_emb", default=True) and not alibi and not rotary
    return fields | {
        "kv_heads": kv_heads,
        "ffn": ratio * fields["hidden"],
        "norm_bias": bias,
        "qkv_bias": bias,
        "proj_bias": bias,
        "mlp_bias": bias,
        "position": "learned" if learned else "alibi" if alibi else "rope" if rotary else "none",
        "positions": fields["sequence"] if learned else 0,
        "qk_norm": "full" if attention.flag("qk_ln", default=False) else "none",
        "dropout": has_dropout(c, "resid_pdrop", "emb_pdrop"),
    }


def phi(c: Config) -> Fields:
    """Phi-1, 1.5, 2: parallel branches behind one norm, biases everywhere."""
    return common(c) | _tie_fields(c, default=False) | {
        "kv_heads": c.integer("kv_heads", "num_key_value_heads", default=0),
        "ffn": _ffn(c, "intermediate_size"),
        "activation": c.text("hidden_act", default="gelu_new"),
        "position": "rope",
        "head_bias": True,
        "parallel_residual": True,
        "shared_norm": True,
        "qk_norm": "head" if c.flag("qk_layernorm", default=False) else "none",
        "dropout": has_dropout(c, "resid_pdrop", "embd_pdrop"),
    }  # fmt: skip


def bert(c: Config) -> Fields:
    """BERT's body; what stands on it is in ENCODERS."""
    c.choice("position_embedding_type", ("absolute",), default="absolute")
    if c.flag("is_decoder", default=False):
        c.complain("is_decoder=True is not supported: BERT is read as an encoder")
    fields = common(c) | _tie_fields(c, default=True)
    return fields | {
        "ffn": c.integer("ffn", "intermediate_size"),
        "activation": c.text("hidden_act", default="gelu"),
        "positions": fields["sequence"],
        "token_types": c.integer("token_types", "type_vocab_size", default=2),
        "embedding_norm": True,
        "norm_first": False,
        "final_norm": False,
        "bidirectional": True,
        "head_bias": True,
        "dropout": has_dropout(c, "hidden_dropout_prob", default=0.1),
    }


def roberta(c: Config) -> Fields:
    """RoBERTa: BERT whose position table has two rows of padding (514 rows for 512 tokens)."""
    fields = bert(c)
    rows = fields["positions"]
    return fields | {"sequence": max(1, rows - 2)}


def t5(c: Config, *, feed: str = "relu", tied: bool = True) -> Fields:
    """T5, T5 1.1, Flan-T5, mT5: encoder and decoder of equal sequences, relative positions."""
    feed = c.text("feed_forward_proj", default=feed)
    gated = feed.startswith("gated-")
    layers = c.integer("layers", "num_layers")
    return {
        "layers": c.integer("layers", "num_decoder_layers", default=layers),
        "encoder_layers": layers,
        "hidden": c.integer("hidden", "d_model", "hidden_size"),
        "heads": c.integer("heads", "num_heads", "num_attention_heads"),
        "head_dim": c.integer("head_dim", "d_kv", "head_dim"),
        "ffn": c.integer("ffn", "d_ff"),
        "vocab": c.integer("vocab", "vocab_size"),
        "sequence": c.integer("sequence", "n_positions", default=512),
        "gated": gated,
        "activation": feed.removeprefix("gated-"),
        "norm": "rmsnorm",
        "position": "relative",
        "relative_buckets": c.integer("relative_buckets", "relative_attention_num_buckets", default=32),
        "qkv_bias": False,
        "proj_bias": False,
        "mlp_bias": False,
        "dropout": has_dropout(c, "dropout_rate", default=0.1),
    } | _tie_fields(c, default=tied)


CLASSIC: dict[str, Callable[[Config], Fields]] = {
    "gpt2": gpt2,
    "gpt_neo": gpt_neo,
    "gptj": gptj,
    "gpt_neox": gpt_neox,
    "opt": opt,
    "bloom": bloom,
    "falcon": falcon,
    "refinedweb": partial(falcon, is_grouped=True),
    "refinedwebmodel": falcon,
    "mpt": mpt,
    "phi": phi,
    "bert": bert,
    "roberta": roberta,
    "t5": t5,
    "mt5": partial(t5, feed="gated-gelu", tied=False),
}

_BODY: Fields = {"lm_head": False, "head_bias": False}
_MASKED: Fields = {"lm_head": True, "mlm_transform": True}

# what stands on BERT's body, by the end of the architecture's name; a classifier is `labels` wide
ENCODERS: dict[str, Fields] = {
    "Model": _BODY | {"pooler": True},
    "ForMaskedLM": _MASKED,
    "ForPreTraining": _MASKED | {"pooler": True, "classes": 2},
    "ForSequenceClassification": _BODY | {"pooler": True, "classes": "labels"},
    "ForTokenClassification": _BODY | {"classes": "labels"},
    "ForQuestionAnswering": _BODY | {"classes": 2},
}
