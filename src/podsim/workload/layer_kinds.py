"""Which kind each layer of a config.json is: what mixes its tokens, and whether its MLP is a mixture.

Configs say it in many ways: a list of names, a string of letters, a period with an offset, indices. Each way is a row
of MIXERS or FEEDS; the first whose key is present counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from podsim.workload.config_json import Config
from podsim.workload.specification import shown

_MIXERS = {
    "full_attention": "full", "attention": "full", "global": "full", "global_attention": "full",
    "indexed_attention": "full",
    "sliding_attention": "sliding", "local": "sliding", "local_attention": "sliding", "chunked_attention": "sliding",
    "linear_attention": "linear", "mamba": "linear", "mamba2": "linear", "recurrent": "linear", "conv": "linear",
    "short_conv": "linear", "m": "linear", "a": "full", "mlp": "none", "moe": "none",
    "hybrid": "both", "hybrid_mamba": "both",
}  # fmt: skip
UNREAD = "its layers are of a kind that no table has"
"""The problem of a family that has to be read by its class."""
_LETTERS = {"M": ("linear", "none"), "*": ("full", "none"), "-": ("none", "dense"), "E": ("none", "sparse")}
_MOST_NAMES = 10_000

Kinds = list[str]


def _kinds_from_names(c: Config, layers: int, key: str) -> Kinds:
    names = c.items(key)
    kinds = [_MIXERS.get(str(name).lower()[:40], "") for name in names[:_MOST_NAMES]]
    if len(kinds) == layers and not all(kinds):
        c.complain(f"{UNREAD}: {key} names {shown(names[kinds.index('')])}")
        return ["full"] * layers
    if len(kinds) != layers:
        known = ", ".join(list(_MIXERS)[:12])
        c.complain(f"{key} must name the kind of each of {layers} layers, from {known}")
        return ["full"] * layers
    return kinds


def _kinds_from_numbers(c: Config, layers: int, key: str, names: str) -> Kinds:
    """A list of 0 and 1; `names` are the kinds of 1 and of 0."""
    flags = c.items(key)
    first, zero = names.split(",")
    if len(flags) != layers or any(flag not in (0, 1) for flag in flags):
        c.complain(f"{key} must be 0 or 1 for each of {layers} layers")
        return ["full"] * layers
    return [first if flag else zero for flag in flags]


def _periodic(c: Config, layers: int, key: str, rest: str, offset: str = "") -> Kinds:
    """Every period-th layer is full, the last of each period unless an offset is given."""
    period = c.integer("layers", key)
    at = c.integer("layers", offset, default=period - 1, least=0) if offset else period - 1
    return ["full" if i % period == at % period else rest for i in range(layers)]


def _kinds_from_indices(c: Config, layers: int, key: str, first: int = 0) -> Kinds:
    full = {i - first for i in c.indices(key)}
    return ["full" if i in full else "linear" for i in range(layers)]


def _kimi(c: Config, layers: int) -> Kinds:
    own = c.table("linear_attn_config")
    own.indices("kda_layers")  # all others
    return _kinds_from_indices(own, layers, "full_attn_layers", first=1)


def _window_pattern(c: Config, layers: int) -> Kinds:
    """Gemma's period, or EXAONE's letters."""
    key = (
        "sliding_window_pattern"
        if c.value("sliding_window_pattern") is not None
        else "_sliding_window_pattern"
    )
    value = c.value(key)
    if isinstance(value, str) and value:
        kinds = {"L": "sliding", "G": "full"}
        return [kinds.get(value[i % len(value)], "full") for i in range(layers)]
    return _periodic(c, layers, key, "sliding")


Reader = Callable[[Config, int], Kinds]
MIXERS: dict[str, Reader] = {
    "layer_types": lambda c, n: _kinds_from_names(c, n, "layer_types"),
    "layers_block_type": lambda c, n: _kinds_from_names(c, n, "layers_block_type"),
    "linear_attn_config": _kimi,
    "attn_type_list": lambda c, n: _kinds_from_numbers(c, n, "attn_type_list", "full,linear"),
    "hybrid_layer_pattern": lambda c, n: _kinds_from_numbers(c, n, "hybrid_layer_pattern", "sliding,full"),
    "full_attn_idxs": lambda c, n: _kinds_from_indices(c, n, "full_attn_idxs"),
    "attn_layer_indices": lambda c, n: _kinds_from_indices(c, n, "attn_layer_indices"),
    "attn_layer_period": lambda c, n: _periodic(c, n, "attn_layer_period", "linear", "attn_layer_offset"),
    "full_attention_interval": lambda c, n: _periodic(c, n, "full_attention_interval", "linear"),
    "block_types": lambda c, n: [
        _MIXERS.get(str(x), "full") for x in _repeat_values(c.items("block_types"), n)
    ],
    "sliding_window_pattern": _window_pattern,
    "_sliding_window_pattern": _window_pattern,
    "global_attn_every_n_layers": lambda c, n: [
        "sliding" if i % max(1, c.integer("layers", "global_attn_every_n_layers")) else "full"
        for i in range(n)
    ],
}
"""Readers of the kinds of mixers, by the key that says them."""


def _repeat_values(values: Sequence[Any], layers: int) -> list[Any]:
    return [values[i % len(values)] for i in range(layers)] if values else ["attention"] * layers


def mixer_kinds(c: Config, layers: int) -> Kinds | None:
    """The kind of mixer of each layer: full, sliding, linear, both or none; None where the config says nothing."""
    stated = [key for key in MIXERS if c.value(key) not in (None, [])]
    return MIXERS[stated[0]](c, layers) if stated else None


def pattern_kinds(c: Config) -> list[tuple[str, str]] | None:
    """(mixer, feed) of each layer from a string of letters (Nemotron-H: M scan, * attention, - MLP, E mixture)."""
    letters = c.text("hybrid_override_pattern")
    if letters:
        if len(letters) > _MOST_NAMES or not set(letters) <= set(_LETTERS):
            c.complain(f"hybrid_override_pattern must be of the letters {' '.join(_LETTERS)}")
            return None
        return [_LETTERS[letter] for letter in letters]
    names = [str(x) for x in c.items("layers_block_type")[:_MOST_NAMES]]
    feeds = {"mlp": "dense", "moe": "sparse"}
    if names and set(names) & set(feeds):
        return [(_MIXERS.get(name, "full"), feeds.get(name, "none")) for name in names]
    return None


def _sparse_from(c: Config, layers: int, key: str) -> set[int]:
    """Dense are the first layers and those between periods."""
    first = c.integer("layers", key, default=0, least=0)
    value = c.value("moe_layer_freq")
    if isinstance(value, list):
        return _dense_flags(c, layers)
    period = c.integer("layers", "moe_layer_freq", "moe_layer_interval", "moe_layer_period", default=1)
    last = c.integer("layers", "moe_layer_end_index", default=0, least=0) or layers
    return {i for i in range(layers) if i < first or i > last or i % period}


def _dense_flags(c: Config, layers: int) -> set[int]:
    flags = c.items("moe_layer_freq")
    if len(flags) != layers:
        c.complain(f"moe_layer_freq must be 0 or 1 for each of {layers} layers")
    return {i for i, flag in enumerate(flags[:layers]) if not flag}


def _dense_but(c: Config, layers: int, key: str) -> set[int]:
    """All but the named layers, which a list or a text of numbers gives."""
    value = c.value(key)
    parts = value.split(",") if isinstance(value, str) else c.items(key)
    sparse = {int(part) for part in map(str, parts) if part.strip().isdecimal() and len(part) < 7}
    return set(range(layers)) - sparse


def _stepped_layers(c: Config, layers: int, key: str) -> set[int]:
    step, plain = c.integer("layers", key), set(c.indices("mlp_only_layers"))
    return {i for i in range(layers) if i in plain or (i + 1) % step}


def _offset(c: Config, layers: int) -> set[int]:
    period = c.integer("layers", "expert_layer_period")
    at = c.integer("layers", "expert_layer_offset", default=0, least=0)
    return {i for i in range(layers) if i % period != at % period}


FEEDS: dict[str, Callable[[Config, int], set[int]]] = {
    "mlp_layer_types": lambda c, n: {
        i for i, name in enumerate(c.items("mlp_layer_types")[:n]) if name == "dense"
    },
    "moe_layers": lambda c, n: _dense_but(c, n, "moe_layers"),
    "moe_layers_enum": lambda c, n: _dense_but(c, n, "moe_layers_enum"),
    "first_k_dense_replace": lambda c, n: _sparse_from(c, n, "first_k_dense_replace"),
    "moe_layer_start_index": lambda c, n: _sparse_from(c, n, "moe_layer_start_index"),
    "num_dense_layers": lambda c, n: _sparse_from(c, n, "num_dense_layers"),
    "moe_layer_freq": lambda c, n: _sparse_from(c, n, "num_dense_layers"),
    "interleave_moe_layer_step": lambda c, n: _stepped_layers(c, n, "interleave_moe_layer_step"),
    "decoder_sparse_step": lambda c, n: _stepped_layers(c, n, "decoder_sparse_step"),
    "expert_layer_period": _offset,
}
"""Readers of the dense layers of a model with experts, by the key that says them."""


def dense_layers(c: Config, layers: int) -> tuple[int, ...]:
    """The layers with a plain MLP in a model with experts."""
    stated = [key for key in FEEDS if c.value(key) not in (None, [])]
    return tuple(sorted(FEEDS[stated[0]](c, layers))) if stated else ()
