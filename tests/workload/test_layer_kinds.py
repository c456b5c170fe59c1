"""Which layers of a config attend, scan or mix experts, and the sizes of scans: by hand, as files of models have them."""

from __future__ import annotations

from typing import Any

import pytest

from podsim.workload.config_json import Config
from podsim.workload.layer_kinds import dense_layers, mixer_kinds, pattern_kinds
from podsim.workload.state_keys import STATES

SHORT = {"full": "f", "sliding": "s", "linear": "l", "none": "-", "both": "b"}


@pytest.mark.parametrize(
    ("raw", "kinds"),
    [
        ({}, None),
        ({"layer_types": []}, None),
        ({"layer_types": ["full_attention", "sliding_attention", "linear_attention"] * 2}, "fslfsl"),
        ({"attn_type_list": [0, 1, 1, 0, 0, 1]}, "lffllf"),
        ({"hybrid_layer_pattern": [0, 1, 1, 0, 0, 1]}, "fssffs"),
        ({"full_attn_idxs": [2, 5]}, "llfllf"),
        ({"attn_layer_indices": [0]}, "flllll"),
        (
            {"linear_attn_config": {"full_attn_layers": [3, 6], "kda_layers": [1, 2, 4, 5]}},
            "llfllf",
        ),  # from 1
        ({"attn_layer_period": 3}, "llfllf"),
        ({"attn_layer_period": 3, "attn_layer_offset": 1}, "lfllfl"),
        ({"attn_layer_period": 3, "attn_layer_offset": 4}, "lfllfl"),
        ({"full_attention_interval": 2}, "lflflf"),
        ({"block_types": ["recurrent", "recurrent", "attention"]}, "llfllf"),
        ({"sliding_window_pattern": 3}, "ssfssf"),
        ({"sliding_window_pattern": "LLG"}, "ssfssf"),
        ({"_sliding_window_pattern": 6}, "sssssf"),
        ({"global_attn_every_n_layers": 3}, "fssfss"),
    ],
)
def test_mixers(raw: dict[str, Any], kinds: str | None) -> None:
    c = Config(raw=raw)
    found = mixer_kinds(c, 6)
    assert (found and "".join(SHORT[kind] for kind in found)) == kinds
    assert not c.problems


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"layer_types": ["full_attention"] * 5}, "layer_types must name the kind of each of 6 layers"),
        (
            {"layer_types": [*["full_attention"] * 5, "new"]},
            "of a kind that no table has: layer_types names 'new'",
        ),
        ({"attn_type_list": [0, 1, 2, 0, 0, 1]}, "attn_type_list must be 0 or 1 for each of 6 layers"),
        ({"attn_type_list": [0, 1]}, "attn_type_list must be 0 or 1 for each of 6 layers"),
    ],
)
def test_mixers_that_no_layer_has(raw: dict[str, Any], problem: str) -> None:
    c = Config(raw=raw)
    assert mixer_kinds(c, 6) == ["full"] * 6
    assert problem in c.problems[0]


def test_letters_and_names_of_both_halves() -> None:
    assert pattern_kinds(Config(raw={})) is None
    assert pattern_kinds(Config(raw={"hybrid_override_pattern": "M*-E"})) == [
        ("linear", "none"), ("full", "none"), ("none", "dense"), ("none", "sparse")
    ]  # fmt: skip
    wrong = Config(raw={"hybrid_override_pattern": "MX"})
    assert pattern_kinds(wrong) is None
    assert "must be of the letters M * - E" in wrong.problems[0]
    assert pattern_kinds(Config(raw={"layers_block_type": ["mamba", "mlp", "attention", "moe"]})) == [
        ("linear", "none"), ("none", "dense"), ("full", "none"), ("none", "sparse")
    ]  # fmt: skip
    assert pattern_kinds(Config(raw={"layers_block_type": ["mamba", "attention"]})) is None


@pytest.mark.parametrize(
    ("raw", "dense"),
    [
        ({}, ()),
        ({"mlp_layer_types": ["dense", "sparse", "sparse", "dense", "sparse", "sparse"]}, (0, 3)),
        ({"moe_layers": [1, 3, 5]}, (0, 2, 4)),
        ({"moe_layers_enum": "1, 3,5"}, (0, 2, 4)),
        ({"first_k_dense_replace": 2}, (0, 1)),
        ({"first_k_dense_replace": 1, "moe_layer_freq": 2}, (0, 1, 3, 5)),
        ({"first_k_dense_replace": 1, "moe_layer_freq": [0, 1, 1, 0, 1, 1]}, (0, 3)),
        ({"moe_layer_start_index": 1, "moe_layer_end_index": 4}, (0, 5)),
        ({"num_dense_layers": 3}, (0, 1, 2)),
        ({"moe_layer_freq": 3}, (1, 2, 4, 5)),
        ({"interleave_moe_layer_step": 2}, (0, 2, 4)),
        ({"decoder_sparse_step": 1, "mlp_only_layers": [0, 4]}, (0, 4)),
        ({"expert_layer_period": 2, "expert_layer_offset": 1}, (0, 2, 4)),
        ({"expert_layer_period": 3}, (1, 2, 4, 5)),
    ],
)
def test_layers_without_experts(raw: dict[str, Any], dense: tuple[int, ...]) -> None:
    assert dense_layers(Config(raw=raw), 6) == dense


@pytest.mark.parametrize(
    ("kind", "raw", "sizes"),
    [
        # mamba-130m: channels 1,536, states 16, a rank of 768 / 16
        ("mamba", {"state_size": 16, "expand": 2, "conv_kernel": 4, "time_step_rank": "auto"}, {
            "state_input": 3072, "state_channels": 1536, "state_taps": 4, "state_width": 1536, "state_dim": 16,
            "state_chunk": 0, "state_bias": True, "plain": 1536 * 18,
            "extras": (("state_sizes", 1536, 48 + 32), ("state_steps", 48, 1536)),
        }),
        ("mamba", {"time_step_rank": 10, "use_bias": True}, {"plain": 1536 * 18 + 3072 + 768}),
        ("jamba", {"mamba_expand": 2, "mamba_d_state": 16, "mamba_dt_rank": 48}, {"plain": 1536 * 18 + 80}),
        # heads of 64: 24; in go gate, channels, and a step a head
        ("mamba2", {"mamba_num_heads": 24, "head_dim": 64, "ssm_state_size": 128, "n_groups": 2}, {
            "state_input": 2 * 1536 + 2 * 2 * 128 + 24, "state_channels": 1536 + 2 * 2 * 128, "state_width": 1536,
            "state_dim": 128, "state_chunk": 256, "plain": 3 * 24 + 1536,
        }),
        ("mamba2", {
            "mamba_num_heads": 24, "mamba_head_dim": "auto", "mamba_rms_norm": False, "mamba_proj_bias": True,
            "chunk_size": 128,
        }, {"state_chunk": 128, "plain": 3 * 24 + (2 * 1536 + 2 * 128 + 24) + 768}),
        # 16 heads of keys and 32 of values, each of 128
        ("delta", {
            "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_num_value_heads": 32,
            "linear_value_head_dim": 128,
        }, {
            "state_input": 2 * 2048 + 2 * 4096 + 2 * 32, "state_channels": 2 * 2048 + 4096, "state_width": 4096,
            "state_dim": 128, "plain": 2 * 32 + 128,
        }),
        ("kimi", {"linear_attn_config": {"num_heads": 8, "head_dim": 96, "short_conv_kernel_size": 3}}, {
            "state_input": 3 * 768 + 8, "state_channels": 3 * 768, "state_taps": 3, "state_dim": 96,
            "plain": 768 + 8 + 96,
            "extras": (
                ("decay_down", 768, 96), ("decay_up", 96, 768), ("gate_down", 768, 96), ("gate_up", 96, 768),
            ),
        }),
        ("lightning", {"num_attention_heads": 12}, {
            "state_input": 4 * 768, "state_width": 768, "state_dim": 64, "state_chunk": 256, "plain": 768,
        }),
        ("lightning", {"num_attention_heads": 12, "head_dim": 32}, {"state_input": 4 * 384, "state_dim": 32}),
        ("convolution", {"conv_L_cache": 5}, {
            "state_input": 3 * 768, "state_channels": 768, "state_taps": 5, "state_width": 768, "plain": 0,
        }),
        ("convolution", {"conv_bias": True}, {"state_taps": 3, "plain": 4 * 768}),
    ],
)  # fmt: skip
def test_sizes_of_scans(kind: str, raw: dict[str, Any], sizes: dict[str, Any]) -> None:
    c = Config(raw=raw)
    found = STATES[kind](c, 768)
    assert {name: found[name] for name in sizes} == sizes
    assert not c.problems
