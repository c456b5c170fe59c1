"""The sizes of a scan from the keys of a config.json, for each kind of scan."""

from __future__ import annotations

import math
from collections.abc import Callable

from podsim.workload.config_json import Config
from podsim.workload.family_table import Fields

_CHUNK = 64
"""tokens. The chunk of kernels of linear attention (flash-linear-attention)."""


def _size(c: Config, *names: str, default: int = -1) -> int:
    return c.integer("state_input", *names, default=default, least=0 if default >= 0 else 1)


def _size_or_auto(c: Config, *names: str, auto: int) -> int:
    """A size for which a config may say "auto"."""
    return auto if any(c.value(name) == "auto" for name in names) else _size(c, *names, default=auto)


def mamba(c: Config, hidden: int) -> Fields:
    """Mamba-1 (arXiv 2312.00752): its steps, inputs and outputs are projected from its own channels."""
    inner = _size(c, "intermediate_size", "d_inner", default=_size(c, "expand", default=2) * hidden)
    states = _size(c, "state_size", "mamba_d_state", "ssm_state_size", default=16)
    rank = _size_or_auto(c, "time_step_rank", "mamba_dt_rank", auto=math.ceil(hidden / 16))
    bias = c.flag("use_bias", "mamba_proj_bias", default=False)
    return {
        "state_input": 2 * inner,
        "state_channels": inner,
        "state_taps": _size(c, "conv_kernel", "mamba_d_conv", default=4),
        "state_bias": c.flag("use_conv_bias", "mamba_conv_bias", default=True),
        "state_width": inner,
        "state_dim": states,
        "state_chunk": 0,
        "plain": inner * (states + 2) + bias * (2 * inner + hidden),
        "extras": (("state_sizes", inner, rank + 2 * states), ("state_steps", rank, inner)),
    }


def jamba(c: Config, hidden: int) -> Fields:
    """Mamba-1 with norms of its steps, inputs and outputs (arXiv 2403.19887)."""
    inner = _size(c, "mamba_expand", default=2) * hidden
    fields = mamba(c.having({"intermediate_size": inner}), hidden)
    return fields | {"plain": fields["plain"] + fields["extras"][0][2]}


def mamba2(c: Config, hidden: int) -> Fields:
    """Mamba-2 (arXiv 2405.21060): heads with one decay each; groups of heads share inputs and outputs."""
    heads = _size(c, "mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads")
    expanded = _size(c, "expand", "mamba_expand", default=2) * hidden
    inner = _size(c, "mamba_d_ssm", default=0)
    names = ("mamba_head_dim", "mamba_d_head", "mamba_headdim")
    alone = () if c.value("num_attention_heads") else ("head_dim",)
    head = _size_or_auto(c, *names, *alone, auto=(inner or expanded) // heads)
    inner = inner or heads * head
    states = _size(c, "ssm_state_size", "mamba_d_state", "state_size", default=128)
    groups = _size(c, "n_groups", "mamba_n_groups", "mamba_ngroups", default=1)
    channels, width = inner + 2 * groups * states, 2 * inner + 2 * groups * states + heads
    bias = c.flag("mamba_proj_bias", "use_bias", "add_bias_linear", default=False)
    has_norm = c.flag("mamba_rms_norm", "rms_norm", default=True)
    return {
        "state_input": width,
        "state_channels": channels,
        "state_taps": _size(c, "conv_kernel", "mamba_d_conv", default=4),
        "state_bias": c.flag("use_conv_bias", "mamba_conv_bias", default=True),
        "state_width": inner,
        "state_dim": states,
        "state_chunk": _size(c, "chunk_size", "mamba_chunk_size", default=256),
        "plain": 3 * heads + inner * has_norm + bias * (width + hidden),
    }


def delta(c: Config, hidden: int) -> Fields:
    """Gated delta rule (arXiv 2412.06464) as Qwen3-Next has it: grouped keys, an output gate, two gates per head."""
    keys = _size(c, "linear_num_key_heads") * _size(c, "linear_key_head_dim")
    heads, head = _size(c, "linear_num_value_heads"), _size(c, "linear_value_head_dim")
    return {
        "state_input": 2 * keys + 2 * heads * head + 2 * heads,
        "state_channels": 2 * keys + heads * head,
        "state_taps": _size(c, "linear_conv_kernel_dim", default=4),
        "state_width": heads * head,
        "state_dim": _size(c, "linear_key_head_dim"),
        "state_chunk": _CHUNK,
        "plain": 2 * heads + head,
    }


def kimi(c: Config, hidden: int) -> Fields:
    """Kimi delta attention (arXiv 2510.26692): decays per channel and an output gate, both of low rank."""
    own = c.table("linear_attn_config") if c.value("linear_attn_config") is not None else c
    heads, head = _size(own, "linear_num_heads", "num_heads"), _size(own, "linear_head_dim", "head_dim")
    width = heads * head
    return {
        "state_input": 3 * width + heads,
        "state_channels": 3 * width,
        "state_taps": _size(own, "linear_conv_kernel_dim", "short_conv_kernel_size", default=4),
        "state_width": width,
        "state_dim": head,
        "state_chunk": _CHUNK,
        "plain": width + heads + head,
        "extras": (
            ("decay_down", hidden, head),
            ("decay_up", head, width),
            ("gate_down", hidden, head),
            ("gate_up", head, width),
        ),
    }


def lightning(c: Config, hidden: int) -> Fields:
    """Lightning attention (arXiv 2401.04658): fixed decays, an output gate, no convolution."""
    heads = _size(c, "num_attention_heads")
    width = heads * _size(c, "head_dim", default=hidden // heads)
    return {
        "state_input": 4 * width,
        "state_width": width,
        "state_dim": width // heads,
        "state_chunk": _size(c, "block_size", default=256),
        "plain": width,
    }


def convolution(c: Config, hidden: int) -> Fields:
    """A gated short convolution (LFM2): no state beyond its taps."""
    bias = c.flag("conv_bias", default=False)
    return {
        "state_input": 3 * hidden,
        "state_channels": hidden,
        "state_taps": _size(c, "conv_L_cache", default=3),
        "state_bias": bias,
        "state_width": hidden,
        "plain": 4 * hidden * bias,
    }


STATES: dict[str, Callable[[Config, int], Fields]] = {
    "mamba": mamba,
    "jamba": jamba,
    "mamba2": mamba2,
    "delta": delta,
    "kimi": kimi,
    "lightning": lightning,
    "convolution": convolution,
}
