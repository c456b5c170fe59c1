"""Families whose layers no row of keys describes: each function completes the fields that the table gives.

Sources: the model classes of transformers 5.23, and of the model's own repository for Nemotron-NAS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from podsim.workload.config_json import Config
from podsim.workload.family_table import Fields
from podsim.workload.specification import LIMITS, Changes


def _pairs(changed: Fields) -> Changes:
    return tuple(sorted(changed.items()))


def _number(c: Config, *names: str, default: int) -> int:
    return c.integer("plain", *names, default=default, least=0)


def _layer_names(c: Config, layers: int) -> list[str]:
    names = [str(name)[:60] for name in c.items("layer_types")[:layers]]
    return names if len(names) == layers else ["full_attention"] * layers


def gemma4(c: Config, fields: Fields) -> Fields:
    """Gemma 4: full layers have wider heads, and keys that serve as values; experts run next to a dense MLP.

    The last layers may share keys and values; each layer may have an input of its own per token (Gemma 3n).
    """
    h, layers = fields["hidden"], fields["layers"]
    names = _layer_names(c, layers)
    period = _number(c, "_sliding_window_pattern", "sliding_window_pattern", default=6) or 6
    if not c.items("layer_types"):
        names = ["full_attention" if (i + 1) % period == 0 else "sliding_attention" for i in range(layers)]
    wide = _number(c, "global_head_dim", default=512) or fields["head_dim"]
    alike = c.flag("attention_k_eq_v", default=False)
    full = {"head_dim": wide, "value_dim": wide, "keys_are_values": alike}
    if alike and (heads := _number(c, "num_global_key_value_heads", default=0)):
        full["kv_heads"] = heads
    shared = layers - _number(c, "num_kv_shared_layers", default=0)
    doubled = c.flag("use_double_wide_mlp", default=False)
    mixture = bool(fields["experts"]) and c.flag("enable_moe_block", default=False)
    base: Fields = {"plain": (4 * h + fields["experts"]) * mixture, "dense_beside": mixture}
    more, head_plain = _inputs_per_layer(c, fields)
    base["plain"] += more.pop("plain", 0)
    varied = []
    for i, name in enumerate(names):
        changed: Fields = dict(full) if name == "full_attention" else {}
        if i >= shared:
            head = changed.get("head_dim", fields["head_dim"])
            changed |= {"shared_keys": True, "plain": base["plain"] - head}
            changed |= {"ffn": 2 * fields["ffn"]} if doubled else {}
        varied.append(_pairs(changed))
    window = _number(c, "sliding_window", default=0)
    return base | more | {
        "experts": fields["experts"] * mixture, "top_k": fields["top_k"] * mixture,
        "expert_ffn": fields["expert_ffn"] * mixture, "dense_layers": (), "variations": tuple(varied),
        "windows": tuple(0 if name == "full_attention" else window for name in names), "head_plain": head_plain,
    }  # fmt: skip


def _inputs_per_layer(c: Config, fields: Fields) -> tuple[Fields, int]:
    """What per-layer inputs add to each layer, and outside the layers (Gemma 3n, Gemma 4)."""
    width, h = _number(c, "hidden_size_per_layer_input", default=0), fields["hidden"]
    if not width:
        return {}, 0
    table = _number(c, "vocab_size_per_layer_input", default=fields["vocab"]) * width * fields["layers"]
    made = width * fields["layers"] * h + width
    extras = (("input_gate", h, width), ("input_projection", width, h))
    return {"extras": extras, "plain": h}, min(table + made, LIMITS["head_plain"])


def gemma3n(c: Config, fields: Fields) -> Fields:
    """Gemma 3n: four streams that each layer predicts and corrects (AltUp), a low-rank branch (LAuReL), shared keys."""
    h, layers = fields["hidden"], fields["layers"]
    streams, rank = _number(c, "altup_num_inputs", default=4), _number(c, "laurel_rank", default=64)
    inputs, head_plain = _inputs_per_layer(c, fields)
    plain = inputs.pop("plain", 0) + 3 * h + streams**2 + streams**3
    extras = (
        *inputs.get("extras", ()), ("altup_router", h, streams), ("laurel_left", h, rank), ("laurel_right", rank, h),
    )  # fmt: skip
    shared = layers - _number(c, "num_kv_shared_layers", default=15)
    head = fields["head_dim"]
    changes = [
        _pairs({"shared_keys": True, "plain": plain - head} if i >= shared else {}) for i in range(layers)
    ]
    names = _layer_names(c, layers)
    window = _number(c, "sliding_window", default=512)
    return {
        "plain": plain, "extras": extras, "variations": tuple(changes),
        "windows": tuple(0 if name == "full_attention" else window for name in names),
        "head_plain": head_plain + 2 * (streams - 1) * h * h,
    }  # fmt: skip


def deepseek_v4(c: Config, fields: Fields) -> Fields:
    """DeepSeek-V4: shared keys and values of one head, near ones in a window, far ones compressed; four streams.

    A ratio of 0 is a window alone, 4 is compressed sparse attention (an indexer picks the compressed keys), and larger
    ones are attention to all compressed keys. Hyper-connections mix the streams before and after each branch.
    """
    h, head, streams = fields["hidden"], fields["head_dim"], _number(c, "hc_mult", default=4)
    mixed = (2 + streams) * streams
    index = _number(c, "index_head_dim", default=128)
    rates = c.table("compress_rates")
    known = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    names = {name: rates.integer("compress", name, default=ratio) for name, ratio in known.items()}
    ratios = [x for x in c.items("compress_ratios")[: fields["layers"]] if type(x) is int and 0 <= x <= 2**20]
    ratios = ratios or [names.get(str(name), 0) for name in c.items("layer_types")[: fields["layers"]]]
    if len(ratios) != fields["layers"]:
        c.complain("compress_ratios must give a whole number for each layer, or layer_types their kinds")
        return {}
    mixing = ("mixing", streams * h, 2 * mixed)
    plain = head + 2 * (mixed + 3)
    sparse = {
        "compress": 4,
        "extras": (mixing, ("compressor", h, 4 * head), ("index_compressor", h, 3 * index)),
        "plain": plain + 8 * head + head + 7 * index,
    }
    changes = {0: {"index_heads": 0}, 4: sparse}
    for ratio in set(ratios) - {0, 4}:
        extras = (mixing, ("compressor", h, 2 * head))
        changes[ratio] = {
            "compress": ratio,
            "extras": extras,
            "plain": plain + ratio * head + head,
            "index_heads": 0,
        }
    return {
        "extras": (mixing,), "plain": plain, "variations": tuple(_pairs(changes[ratio]) for ratio in ratios),
        "head_plain": streams * streams * h + streams + 1, "windows": (_number(c, "sliding_window", default=128),),
    }  # fmt: skip


def nemotron_nas(c: Config, fields: Fields) -> Fields:
    """Nemotron-NAS: each layer has its own key heads and MLP width, or lacks either (arXiv 2411.19146)."""
    entries = c.items("block_configs")
    if len(entries) != fields["layers"] or not all(isinstance(entry, dict) for entry in entries):
        c.complain(f"block_configs must have an object for each of {fields['layers']} layers")
        return {}
    layers = tuple(
        _nas_layer(replace(c, raw=entry, prefix="block_configs.", defaults={}), fields) for entry in entries
    )
    return {"variations": layers, "ffn": max((dict(layer).get("ffn", 1) for layer in layers), default=1)}


def _nas_layer(entry: Config, fields: Fields) -> Changes:
    changed: Fields = {}
    attention, feed = entry.table("attention"), entry.table("ffn")
    if attention.flag("no_op", default=False):
        changed["mixer"] = "none"
    elif attention.flag("replace_with_linear", default=False):
        changed |= {"mixer": "none", "extras": (("linear", fields["hidden"], fields["hidden"]),)}
    else:
        changed["kv_heads"] = max(
            1, fields["heads"] // attention.integer("heads", "n_heads_in_group", default=1)
        )
    if feed.flag("no_op", default=False):
        changed["feed"] = False
    else:
        width = int(2 * min(max(feed.number("ffn_mult", default=4.0), 0.0), 1e3) * fields["hidden"] / 3)
        stated = feed.integer("ffn", "intermediate_size", default=0, least=0)
        changed["ffn"] = min(max(1, stated or -(-width // 256) * 256), LIMITS["ffn"])
    return _pairs(changed)


def lfm2(c: Config, fields: Fields) -> Fields:
    """LFM2: the MLP's width is two thirds of the stated one, rounded up."""
    width = int(2 * _number(c, "block_ff_dim", "intermediate_size", default=1) / 3)
    width = int(min(max(c.number("block_ffn_dim_multiplier", default=1.0), 0.0), 1e3) * width)
    multiple = _number(c, "block_multiple_of", default=256) or 1
    is_adjusted = c.flag("block_auto_adjust_ff_dim", default=False)
    return {"ffn": -(-max(width, 1) // multiple) * multiple} if is_adjusted else {}


def neox_japanese(c: Config, fields: Fields) -> Fields:
    """GPT-NeoX Japanese: the MLP's width is a multiple of hidden; one bias for all layers' attention."""
    return {
        "ffn": _number(c, "intermediate_multiple_size", default=4) * fields["hidden"],
        "head_plain": fields["hidden"],
    }


def bitnet(c: Config, fields: Fields) -> Fields:
    """BitNet: norms before the projections that close attention and MLP."""
    return {"plain": fields["hidden"] + fields["ffn"]}


def longcat(c: Config, fields: Fields) -> Fields:
    """LongCat-Flash: two dense sub-layers beside each mixture, read as twice the layers, every second with experts."""
    layers = 2 * fields["layers"]
    return {"layers": layers, "dense_layers": tuple(range(0, layers, 2)), "dense_beside": True}


Completion = Callable[[Config, dict[str, Any]], Fields]
ODD: dict[str, Completion] = {
    "gemma4_text": gemma4,
    "gemma4_unified_text": gemma4,
    "gemma3n_text": gemma3n,
    "deepseek_v4": deepseek_v4,
    "nemotron-nas": nemotron_nas,
    "lfm2": lfm2,
    "gpt_neox_japanese": neox_japanese,
    "bitnet": bitnet,
    "longcat_flash": longcat,
}
"""The functions by model_type."""
