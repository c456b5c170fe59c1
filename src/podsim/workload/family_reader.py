"""A config.json as fields of a Transformer, by the table of families; an unknown family by what its keys state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from podsim.workload.config_json import Config
from podsim.workload.families import trained_length
from podsim.workload.family_table import Family, Fields, class_defaults, families, pass_over, read_fields
from podsim.workload.layer_kinds import UNREAD, dense_layers, mixer_kinds, pattern_kinds
from podsim.workload.odd_families import ODD
from podsim.workload.specification import LIMITS, Changes
from podsim.workload.state_keys import STATES

_ESSENTIAL = (
    (
        "num_hidden_layers",
        "n_layer",
        "n_layers",
        "num_layers",
        "hybrid_override_pattern",
        "layers_block_type",
    ),
    ("hidden_size", "n_embd", "d_model", "n_embed", "dim", "model_dim"),
    ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    ("vocab_size", "padded_vocab_size"),
)
"""The keys that state an ordinary transformer: one of each row."""
_GIVEN = frozenset(["intermediate_size", *(key for row in _ESSENTIAL for key in row)])
"""The keys that a file states itself: no default of its class stands for them, and null says nothing."""
_LISTED = re.compile(
    r"intermediate_size|moe_topk|num_shared_expert|moe_num_experts|^num_experts$|_per_layer$"
)
"""The keys whose lists have a number for each layer."""
_NO_WIDTH = "intermediate_size is missing: no key says how wide the MLP is"
_READ_TOO = ("lfm2", "bitnet", "gpt_neox_japanese")
"""Odd families whose layers are read as others' are."""


def is_ordinary(raw: Mapping[str, Any]) -> bool:
    """Whether the keys state layers, width, heads and vocabulary."""
    return all(any(type(raw.get(key)) in (int, str, list) for key in row) for row in _ESSENTIAL)


def read_family(c: Config, kind: str) -> Fields:
    """The fields of a config of a family of the table; those of an unknown family are as an ordinary transformer's."""
    family = families().get(kind) or families()["ordinary"]
    c = with_defaults(c, kind)
    pattern = pattern_kinds(c)
    if pattern:
        c = c.having({"num_hidden_layers": len(pattern)})
    c = _first_widths(c)
    fields = read_fields(c, family.fields) | {"sequence": trained_length(c, default=8192)}
    open_fields = {name for name, value in fields.items() if value == 0} - _stated(c, family)
    if fields["top_k"] and "experts" in open_fields:
        c.complain(f"top_k={fields['top_k']}, but no key says how many experts there are")
    if fields["experts"] and "expert_ffn" in open_fields:
        c.complain(f"experts={fields['experts']}, but no key says how wide they are")
    if "ffn" in open_fields and not fields["experts"] and fields.get("feed", True) and not pattern:
        c.complain(_NO_WIDTH)
    if c.problems:
        return fields
    pass_over(c, family)
    complete = ODD.get(kind) or ODD.get(family.name)
    if complete is None or kind in _READ_TOO:
        fields = _layers(c, family, _heads(fields), pattern)
    else:
        fields = _heads(fields) | _shared_width(c, fields)
    return fields | complete(c, fields) if complete else fields


def _stated(c: Config, family: Family) -> set[str]:
    """The fields that the file, its class or the family's row state, as 0 or, but for the given keys, null, too."""
    rules = {name: rule for name, rule in family.fields.items() if isinstance(rule, str) and rule[:1] == "$"}
    keys = {name: rule[1:].partition("=")[0].split("|") for name, rule in rules.items()}
    stating = {key for names in keys.values() for key in names if c.has_key(key)}
    stating -= {key for key in stating & _GIVEN if c.value(key) is None}
    return {name for name in family.fields if name not in keys or stating & set(keys[name])}


def with_defaults(c: Config, kind: str) -> Config:
    """The config with what its class in transformers takes for keys that the file leaves out."""
    known = class_defaults().get(kind, {})
    return replace(c, defaults={key: value for key, value in known.items() if c.prefix or key not in _GIVEN})


def _first_widths(c: Config) -> Config:
    """The config with sizes that it states in groups or layer by layer as one number each.

    Groups are `attn_config` and `ffn_config` (DBRX); a list with one number for all layers (Hunyuan) is that number.
    Images have `patch_elements` numbers a patch, and a class token besides their patches.
    """
    nested = [c.raw[key] for key in ("attn_config", "ffn_config") if isinstance(c.raw.get(key), dict)]
    flat = {key: value for group in nested for key, value in group.items() if key not in c.raw}
    flat |= _patches(c)
    firsts = {
        key: value[0]
        for key, value in {**c.defaults, **c.raw}.items()
        if isinstance(value, list) and _LISTED.search(key) and value == value[:1] * len(value) != []
    }
    return c.having(flat | firsts) if flat or firsts else c


def _patches(c: Config) -> dict[str, int]:
    """What the sizes of an image and of its patches give, in a config of a vision transformer."""
    sides = [c.value(key) for key in ("image_size", "patch_size")]
    image, patch = (side[0] if isinstance(side, list) and side else side for side in sides)
    if type(image) is not int or type(patch) is not int or not 0 < patch <= image <= 2**16:
        return {}
    channels = c.integer("heads", "num_channels", "in_channels", default=3)
    return {"seq_length": (image // patch) ** 2 + 1, "patch_elements": patch * patch * channels}


def _heads(fields: Fields) -> Fields:
    """Latent attention has as many key heads as query heads, and its own widths of heads."""
    if fields.get("kv_rank"):
        return fields | {"kv_heads": fields["heads"], "head_dim": 0}
    if not fields["head_dim"] and fields["hidden"] % fields["heads"] == 0:
        fields = fields | {"head_dim": max(1, fields["hidden"] // fields["heads"])}
    return fields | {"nope_dim": 0, "rope_dim": 0}


def _shared_width(c: Config, fields: Fields) -> Fields:
    """The width of all shared experts, which configs state together, each, or not at all."""
    total = c.integer(
        "shared_ffn", "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim",
        "shared_intermediate_size", "shared_expert_ffn_dim", default=0, least=0,
    )  # fmt: skip
    if not fields["experts"]:
        return {"shared_ffn": 0, "shared_experts": 0, "top_k": 0, "expert_ffn": 0}
    count = fields["shared_experts"]
    width = total or count * (fields["expert_ffn"] or fields["ffn"])
    if count and not total and not c.defaults:
        c.assumed.setdefault("shared experts as wide as the others", "")
    fixed = fields.get("shared_ffn")
    return {"shared_ffn": width if fixed is None else fixed, "shared_experts": count or int(width > 0)}


def _layers(c: Config, family: Family, fields: Fields, pattern: list[tuple[str, str]] | None) -> Fields:
    """All fields, with the windows, the mixtures and what varies from layer to layer."""
    layers = fields["layers"]
    window = _window(c)
    kinds = [mixer for mixer, _ in pattern] if pattern else mixer_kinds(c, layers)
    if "all" in family.fields:
        kinds = [family.fields["all"]] * layers
    if kinds is None and family.state and "otherwise" not in family.fields:
        c.complain("no key says which layers are scans")
    if kinds is None:
        kinds = [family.fields.get("otherwise", "sliding" if window else "full")] * layers
    fields = fields | _shared_width(c, fields)
    dense = set(dense_layers(c, layers)) if fields["experts"] else set(range(layers))
    if fields["experts"] and not dense and not pattern and not c.defaults:
        c.assumed.setdefault("experts in every layer", "")
    feeds = (
        [feed for _, feed in pattern]
        if pattern
        else ["dense" if i in dense else "sparse" for i in range(layers)]
    )
    states: Fields = {}
    if set(kinds) & {"linear", "both"}:
        states = STATES[family.state](c, fields["hidden"]) if family.state else {}
        if not family.state:
            c.complain(UNREAD)
    elif family.state:  # its keys are known, though no layer needs them
        STATES[family.state](replace(c, problems=[], assumed={}), fields["hidden"])
    memo: dict[tuple[str, str], Changes] = {}
    for pair in dict.fromkeys(zip(kinds, feeds, strict=True)):
        memo[pair] = _changes(c, family, fields, pair, states, single=bool(pattern))
    variations = tuple(memo[pair] for pair in zip(kinds, feeds, strict=True))
    if "dense" in feeds and fields["experts"] and not fields["ffn"] and "ffn" not in _stated(c, family):
        c.complain(_NO_WIDTH)
    if fields["experts"]:
        fields = fields | {"dense_layers": tuple(i for i, feed in enumerate(feeds) if feed != "sparse")}
    if window and "sliding" in kinds:
        fields = fields | {"windows": tuple(window if kind == "sliding" else 0 for kind in kinds)}
    if len(set(variations)) == 1:
        return fields | dict(variations[0])
    return fields | {"variations": variations}


def _window(c: Config) -> int:
    if c.value("use_sliding_window") is False:
        return 0
    return c.integer(
        "sequence", "sliding_window", "sliding_window_size", "attention_chunk_size", "window_size", "local_attention",
        "attention_window_size", default=0, least=0,
    )  # fmt: skip


def _changes(
    c: Config, family: Family, fields: Fields, pair: tuple[str, str], states: Fields, *, single: bool
) -> Changes:
    """What a layer of a (mixer, feed) has otherwise."""
    mixer, feed = pair
    changed: Fields = {}
    if mixer in ("linear", "both"):
        changed |= {"mixer": "state" if mixer == "linear" else "both"} | states
        changed["plain"] = fields.get("plain", 0) + states.get("plain", 0)
    elif mixer == "none":
        changed["mixer"] = "none"
    if single:
        changed["feed"] = feed != "none"
    for kind in pair:
        changed |= read_fields(c, family.layers.get(kind, {}))
    return tuple(
        sorted(
            (name, min(value, LIMITS[name]) if name in LIMITS else value) for name, value in changed.items()
        )
    )
