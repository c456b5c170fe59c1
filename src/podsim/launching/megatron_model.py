"""The shape of a model as Megatron-LM's options, and a Transformer's fields read back from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from podsim.launching.flags import Flags
from podsim.workload.model import Model

GPT2_VOCABULARY = 50257
"""tokens of GPT-2's byte-pair encoding, the vocabulary of Megatron-LM's examples"""
_VOCABULARIES = {"GPT2BPETokenizer": GPT2_VOCABULARY, "Llama2Tokenizer": 32000}
"""tokens that a kind of tokenizer always has"""
_SCORES = ("softmax", "sigmoid", "sqrtsoftplus")
_POSITIONS = {"learned": "learned_absolute", "rope": "rope", "none": "none"}
_UNSAID = {
    "variations": "layers that differ from the others", "query_gate": "gates on attention's output",
    "index_heads": "sparse attention", "vision": "its encoder of images", "sinks": "attention sinks",
    "windows": "sliding windows", "parallel_residual": "attention and MLP in parallel",
    "sandwich_norms": "norms after attention and MLP", "token_types": "token types",
}  # fmt: skip


def model_options(model: Model, sequence: int) -> list[str]:
    """Options that give the shape of a decoder."""
    a = model.attributes
    out = [
        "--num-layers", str(a["layers"]), "--hidden-size", str(a["hidden"]), "--ffn-hidden-size", str(a["ffn"]),
        "--num-attention-heads", str(a["heads"]), "--vocab-size", str(a["vocab"]),
        "--max-position-embeddings", str(max(int(str(a["positions"])), sequence)),
        "--position-embedding-type", _POSITIONS.get(str(a["position"]), "none"),
        "--normalization", "RMSNorm" if a["norm"] == "rmsnorm" else "LayerNorm",
    ]  # fmt: skip
    if not a["kv_rank"] and a["kv_heads"] != a["heads"]:
        out += ["--group-query-attention", "--num-query-groups", str(a["kv_heads"])]
    out += _attention(a)
    if a["gated"]:
        out.append("--swiglu")
    if not (a["proj_bias"] or a["mlp_bias"]):
        out.append("--disable-bias-linear")
        out += ["--add-qkv-bias"] if a["qkv_bias"] else []
    if not a["tied"]:
        out.append("--untie-embeddings-and-output-weights")
    if not a["dropout"]:
        out += ["--attention-dropout", "0.0", "--hidden-dropout", "0.0"]
    if a["qk_norm"] != "none":
        out.append("--qk-layernorm")
    if a["rotary_base"]:
        out += ["--rotary-base", str(a["rotary_base"])]
    if a["mtp"]:
        out += ["--mtp-num-layers", str(a["mtp"])]
    return out + (_experts(a) if a["experts"] else [])


def _attention(a: dict[str, Any]) -> list[str]:
    if a["kv_rank"]:
        rank = ["--q-lora-rank", str(a["q_rank"])] if a["q_rank"] else []
        return ["--multi-latent-attention", *rank, "--kv-lora-rank", str(a["kv_rank"]), "--qk-head-dim",
                str(a["nope_dim"]), "--qk-pos-emb-head-dim", str(a["rope_dim"]), "--v-head-dim",
                str(a["value_dim"]), "--rope-type", "rope", "--rotary-scaling-factor", "1.0"]  # fmt: skip
    return ["--kv-channels", str(a["head_dim"])] if a["head_dim"] * a["heads"] != a["hidden"] else []


def _experts(a: dict[str, Any]) -> list[str]:
    out = ["--num-experts", str(a["experts"]), "--moe-router-topk", str(a["top_k"]), "--moe-ffn-hidden-size",
           str(a["expert_ffn"]), "--moe-grouped-gemm", "--moe-token-dispatcher-type", "alltoall"]  # fmt: skip
    score = a["router_score"] or ("sigmoid" if a["router_bias"] else "")
    if score:
        out += ["--moe-router-score-function", score]
    if a["router_groups"]:
        groups = (
            ("--moe-router-num-groups", "router_groups"),
            ("--moe-router-group-topk", "router_top_groups"),
        )
        out += [word for flag, name in groups for word in (flag, str(a[name]))]
    if a["shared_gate"]:
        out.append("--moe-shared-expert-gate")
    if a["shared_ffn"]:
        out += ["--moe-shared-expert-intermediate-size", str(a["shared_ffn"])]
    if a["router_bias"]:
        out.append("--moe-router-enable-expert-bias")
    if a["dense_layers"]:
        dense = set(a["dense_layers"])
        pattern = ",".join("0" if layer in dense else "1" for layer in range(a["layers"]))
        out += ["--moe-layer-freq", f"[{pattern}]"]
    return out


def model_notes(model: Model, keys: str = "Megatron-LM's options") -> list[str]:
    """What options, or the keys of another tool, leave unsaid of a model."""
    a = model.attributes
    unsaid = [text for name, text in _UNSAID.items() if a[name]]
    if a["position"] not in _POSITIONS:
        unsaid.append(f"{a['position']} positions")
    if a["embedding_width"] != a["hidden"]:
        unsaid.append("a projected embedding")
    return [f"{keys} do not say of {model.name}: {', '.join(unsaid)}"] if unsaid else []


def has_scans(model: Model) -> bool:
    """Whether some layers scan their tokens, as Mamba and linear attention do, instead of attending to them."""
    a: Mapping[str, Any] = model.attributes
    kinds = {a.get("mixer"), *(dict(layer).get("mixer") for layer in a.get("variations") or ())}
    return bool(kinds & {"state", "both"})


def read_model(flags: Flags, assumed: list[str]) -> dict[str, object]:
    """Fields of a Transformer; empty if the command gives no layers, hidden size and heads."""
    number = flags.number
    layers, hidden, heads = number("num-layers"), number("hidden-size"), number("num-attention-heads")
    fields: dict[str, object] = {
        "ffn": number("ffn-hidden-size") or 0, "head_dim": number("kv-channels") or 0,
        "gated": flags.has("swiglu"), "tied": not flags.has("untie-embeddings-and-output-weights"),
        "norm": "rmsnorm" if flags.word("normalization", choices=("LayerNorm", "RMSNorm")) == "RMSNorm" else "layernorm",
    }  # fmt: skip
    grouped, groups = flags.has("group-query-attention"), number("num-query-groups")
    fields["kv_heads"] = (groups or 1) if grouped else 0
    plain = flags.has("disable-bias-linear")
    fields |= {
        "proj_bias": not plain,
        "mlp_bias": not plain,
        "qkv_bias": flags.has("add-qkv-bias") or not plain,
    }
    kind = flags.word(
        "position-embedding-type", choices=("learned_absolute", "rope", "none", "mrope", "yarn", "alibi")
    )
    rotary = kind in ("rope", "mrope", "yarn") or flags.has("use-rotary-position-embeddings")
    fields["position"] = "rope" if rotary else kind if kind in ("none", "alibi") else "learned"
    fields["positions"] = (number("max-position-embeddings") or 0) if fields["position"] == "learned" else 0
    fields["rotary_base"] = (number("rotary-base") or 10_000) if fields["position"] == "rope" else 0
    flags.word("rope-type", choices=("rope", "yarn"))
    flags.word("rotary-scaling-factor")
    fields["qk_norm"] = "head" if flags.has("qk-layernorm") else "none"
    drop = [flags.word("attention-dropout"), flags.word("hidden-dropout")]
    fields["dropout"] = any(value is None or value.strip("0.") for value in drop)
    fields |= _read_experts(flags, layers or 0) | _read_latent(flags)
    fields["windows"] = _read_windows(flags)
    fields["embedding_norm"] = flags.has("embed-layernorm")
    fields["mtp"] = flags.number("mtp-num-layers", least=0) or 0
    if not (layers and hidden and heads):
        return {}
    given = {"layers": layers, "hidden": hidden, "heads": heads, "vocab": _read_vocabulary(flags, assumed)}
    fields["sequence"] = flags.number("seq-length", "encoder-seq-length") or 1024
    if not fields["ffn"]:  # as Megatron-LM takes it
        fields["ffn"] = int(4 * hidden * 2 / 3) // 64 * 64 if fields["gated"] else 4 * hidden
    return {**given, **fields}


def _read_vocabulary(flags: Flags, assumed: list[str]) -> int:
    """Tokens of the vocabulary: padded, as given, or as the tokenizer has them."""
    plain, padded = flags.number("vocab-size"), flags.number("padded-vocab-size", "pad-vocab-size-to")
    if padded or plain:
        return padded or plain or 0
    kind = flags.word("tokenizer-type")
    known = _VOCABULARIES.get(kind or "GPT2BPETokenizer")
    of = f", and --tokenizer-type {kind[:40]} tells none; give it" if kind and not known else ""
    named = "Llama 2's" if kind == "Llama2Tokenizer" else "GPT-2's, as in Megatron-LM's examples"
    assumed.append(f"no --vocab-size{of}: {known or GPT2_VOCABULARY}, {named}")
    return known or GPT2_VOCABULARY


def _read_windows(flags: Flags) -> tuple[int, ...]:
    """Sliding windows as a pattern over the layers: --window-size W,0, in every layer or in all but each Nth."""
    text, period = flags.word("window-size"), flags.number("window-attn-skip-freq")
    if text is None:
        return ()
    width = text.strip("()[]").partition(",")[0].strip()
    if not (width.isascii() and width.isdecimal() and 0 < len(width) < 10 and int(width)):
        flags.problems.append(f"--window-size {text[:60]!r} must be the tokens before and after, as 1024,0")
        return ()
    return (int(width),) * (period - 1) + (0,) if period else (int(width),)


def _read_experts(flags: Flags, layers: int) -> dict[str, object]:
    experts = flags.number("num-experts")
    fields: dict[str, object] = {
        "experts": experts or 0, "expert_ffn": flags.number("moe-ffn-hidden-size") or 0,
        "shared_ffn": flags.number("moe-shared-expert-intermediate-size") or 0,
        "router_bias": flags.has("moe-router-enable-expert-bias"), "shared_gate": flags.has("moe-shared-expert-gate"),
        "router_score": flags.word("moe-router-score-function", choices=_SCORES) or "softmax",
        "router_groups": flags.number("moe-router-num-groups") or 0,
        "router_top_groups": flags.number("moe-router-group-topk") or 0,
    }  # fmt: skip
    flags.word("moe-token-dispatcher-type", choices=("allgather", "alltoall", "alltoall_seq", "flex"))
    if fields["router_bias"] and fields["router_score"] == "softmax":
        flags.problems.append("--moe-router-enable-expert-bias needs --moe-router-score-function sigmoid")
    top = flags.number("moe-router-topk")
    text = flags.word("moe-layer-freq")
    flags.has("moe-grouped-gemm")
    if not experts:
        return {}
    fields["top_k"] = top or 2
    if text is not None:
        fields["dense_layers"] = _dense(flags, text, layers)
    return fields


def _dense(flags: Flags, text: str, layers: int) -> tuple[int, ...]:
    """Layers with a plain MLP, from --moe-layer-freq: every Nth has experts, or a list such as ([0]*1+[1]*60)."""
    if text.isascii() and text.isdecimal() and len(text) < 5 and int(text):
        return tuple(layer for layer in range(layers) if layer % int(text))
    spelt = re.sub(
        r"\[([01,]{1,999})\]\*(\d{1,4})",
        lambda m: f"[{','.join([m[1]] * int(m[2]))}]",
        text.strip("()'\" ").replace(" ", ""),
    )
    pattern = [c for c in spelt if c in "01"]
    if set(spelt) - set("[],+01") or len(pattern) != layers:
        flags.problems.append(
            f"--moe-layer-freq {text[:60]!r} must be a number, or a list of {layers} zeros and ones"
        )
        return ()
    return tuple(layer for layer, kind in enumerate(pattern) if kind == "0")


def _read_latent(flags: Flags) -> dict[str, object]:
    number = flags.number
    values = {
        "q_rank": number("q-lora-rank") or 0, "kv_rank": number("kv-lora-rank") or 32,
        "nope_dim": number("qk-head-dim") or 128, "rope_dim": number("qk-pos-emb-head-dim") or 64,
        "value_dim": number("v-head-dim") or 128,
    }  # fmt: skip
    return dict(values) if flags.has("multi-latent-attention") else {}
