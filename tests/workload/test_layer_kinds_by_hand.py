"""Which layer is of which kind, by hand, for each way in which configs say it."""

from __future__ import annotations

from typing import Any

import pytest

from podsim.workload.config_json import Config
from podsim.workload.layer_kinds import dense_layers, mixer_kinds, pattern_kinds

LETTERS = {"f": "full", "s": "sliding", "l": "linear", "n": "none", "b": "both"}


@pytest.mark.parametrize(
    ("raw", "kinds"),
    [
        ({"layer_types": ["full_attention", "sliding_attention", "mamba", "hybrid", "mlp"]}, "fslbn"),
        ({"layers_block_type": ["M", "a", "short_conv", "moe", "global"]}, "lflnf"),
        ({"linear_attn_config": {"full_attn_layers": [2, 5], "kda_layers": [1, 3, 4]}}, "lfllf"),  # counted from 1
        ({"attn_type_list": [0, 1, 0, 0, 1]}, "lfllf"),
        ({"hybrid_layer_pattern": [0, 1, 0, 0, 1]}, "fsffs"),
        ({"full_attn_idxs": [2, 4]}, "llflf"), ({"attn_layer_indices": [0]}, "fllll"),
        ({"attn_layer_period": 3, "attn_layer_offset": 1}, "lfllf"), ({"attn_layer_period": 2}, "lflfl"),
        ({"attn_layer_period": 2, "attn_layer_offset": 0}, "flflf"),
        ({"full_attention_interval": 4}, "lllfl"), ({"block_types": ["recurrent", "recurrent", "attention"]}, "llfll"),
        ({"sliding_window_pattern": 3}, "ssfss"), ({"_sliding_window_pattern": 2}, "sfsfs"),
        ({"sliding_window_pattern": "LLG"}, "ssfss"), ({"global_attn_every_n_layers": 3}, "fssfs"),
        ({"layer_types": [], "full_attn_idxs": [1]}, "lflll"),
    ],
)  # fmt: skip
def test_mixers_of_five_layers(raw: dict[str, Any], kinds: str) -> None:
    c = Config(raw=raw)
    assert mixer_kinds(c, 5) == [LETTERS[letter] for letter in kinds]
    assert not c.problems


def test_a_config_that_says_nothing_has_no_kinds() -> None:
    assert mixer_kinds(Config(raw={"layer_types": None}), 5) is None
    assert pattern_kinds(Config(raw={"layers_block_type": ["mamba"]})) is None
    assert dense_layers(Config(raw={}), 5) == ()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (
            {"layer_types": ["full_attention"] * 4},
            "layer_types must name the kind of each of 5 layers, from full_",
        ),
        ({"layer_types": ["attention"] * 4 + ["odd"]}, "layer_types names 'odd'"),
        ({"attn_type_list": [0, 1, 0, 0]}, "must be 0 or 1 for each of 5 layers"),
        ({"attn_type_list": [0, 1, 0, 0, 2]}, "must be 0 or 1 for each of 5 layers"),
    ],
)
def test_kinds_that_cannot_be(raw: dict[str, Any], said: str) -> None:
    c = Config(raw=raw)
    assert mixer_kinds(c, 5) == ["full"] * 5
    assert said in c.problems[0]


def test_letters_and_names_of_nemotron() -> None:
    read = [("linear", "none"), ("full", "none"), ("none", "dense"), ("none", "sparse")]
    assert pattern_kinds(Config(raw={"hybrid_override_pattern": "M*-E"})) == read
    assert pattern_kinds(Config(raw={"layers_block_type": ["mamba", "attention", "mlp", "moe"]})) == read
    c = Config(raw={"hybrid_override_pattern": "MX"})
    assert pattern_kinds(c) is None
    assert "must be of the letters M * - E" in c.problems[0]


@pytest.mark.parametrize(
    ("raw", "dense"),
    [
        ({"mlp_layer_types": ["dense", "sparse", "dense", "sparse", "sparse", "sparse"]}, (0, 2)),
        ({"moe_layers": [1, 4]}, (0, 2, 3, 5)), ({"moe_layers_enum": "1, 4,5"}, (0, 2, 3)),
        ({"first_k_dense_replace": 2}, (0, 1)), ({"first_k_dense_replace": 1, "moe_layer_freq": 2}, (0, 1, 3, 5)),
        ({"moe_layer_start_index": 1, "moe_layer_end_index": 3}, (0, 4, 5)), ({"num_dense_layers": 3}, (0, 1, 2)),
        ({"moe_layer_freq": [0, 1, 1, 0, 1, 1]}, (0, 3)), ({"interleave_moe_layer_step": 2}, (0, 2, 4)),
        ({"decoder_sparse_step": 1, "mlp_only_layers": [3]}, (3,)), ({"decoder_sparse_step": 3}, (0, 1, 3, 4)),
        ({"expert_layer_period": 2, "expert_layer_offset": 1}, (0, 2, 4)),
        ({"expert_layer_period": 3}, (1, 2, 4, 5)), ({"expert_layer_period": 3, "expert_layer_offset": 5}, (0, 1, 3, 4)),
    ],
)  # fmt: skip
def test_dense_layers_of_six(raw: dict[str, Any], dense: tuple[int, ...]) -> None:
    c = Config(raw=raw)
    assert dense_layers(c, 6) == dense
    assert not c.problems


def test_flags_for_other_layers_are_told() -> None:
    c = Config(raw={"moe_layer_freq": [0, 1]})
    assert dense_layers(c, 6) == (0,)
    assert "moe_layer_freq must be 0 or 1 for each of 6 layers" in c.problems[0]
