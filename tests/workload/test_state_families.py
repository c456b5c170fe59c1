"""Families with scans and short convolutions: parameters by hand, which are those of their model cards."""

from __future__ import annotations

from typing import Any

import pytest

from podsim.workload.huggingface import read_config

MAMBA = {
    "model_type": "mamba", "architectures": ["MambaForCausalLM"], "hidden_size": 768, "num_hidden_layers": 24,
    "vocab_size": 50280, "state_size": 16, "intermediate_size": 1536, "expand": 2, "time_step_rank": 48,
    "conv_kernel": 4, "use_conv_bias": True, "use_bias": False, "tie_word_embeddings": True,
}  # fmt: skip
LFM2 = {
    "model_type": "lfm2", "architectures": ["Lfm2ForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16,
    "vocab_size": 65536, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 12288,
    "block_auto_adjust_ff_dim": True, "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0, "conv_L_cache": 3,
    "conv_bias": False, "full_attn_idxs": [2, 5, 8, 10, 12, 14], "max_position_embeddings": 128000,
    "tie_word_embeddings": True,
}  # fmt: skip
JAMBA = {
    "model_type": "jamba", "architectures": ["JambaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
    "vocab_size": 65536, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "num_experts": 16, "num_experts_per_tok": 2, "expert_layer_period": 2, "expert_layer_offset": 1,
    "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
    "mamba_dt_rank": 256, "mamba_conv_bias": True, "mamba_proj_bias": False, "max_position_embeddings": 262144,
    "tie_word_embeddings": False,
}  # fmt: skip


def scan(hidden: int, rank: int, *, taps: int = 4, states: int = 16, normed: bool = False) -> int:
    """In and out, a convolution with bias, step and states of the input, the step, decays, and one weight a channel."""
    wide = 2 * hidden
    plain = wide * (taps + 1) + wide * (states + 1) + (rank + 2 * states) * normed
    return 3 * hidden * wide + plain + wide * (rank + 2 * states) + (rank + 1) * wide


def test_mamba_130m() -> None:
    by_hand = 50280 * 768 + 24 * (768 + scan(768, 48)) + 768
    assert by_hand == 129_135_360
    assert read_config(MAMBA).parameters == by_hand


def test_lfm2() -> None:
    """The width of the MLP is two thirds of the stated one; three taps a channel, and three products of its width in."""
    convolution, attention = 2048 * (3 * 2048 + 3 + 2048), 2048 * (2 * 2048 + 2 * 512) + 2 * 64
    by_hand = 65536 * 2048 + 16 * (3 * 2048 * 8192 + 2 * 2048) + 10 * convolution + 6 * attention + 2048
    assert by_hand == 1_170_340_608
    model = read_config(LFM2)
    assert model.parameters == by_hand
    assert (
        sum(block.count for block in model.layers if any(op.name == "attention.core" for op in block.ops))
        == 6
    )
    plain = read_config({**LFM2, "block_auto_adjust_ff_dim": False})
    assert plain.parameters - by_hand == 16 * 3 * 2048 * 4096
    odd = read_config({**LFM2, "intermediate_size": 1000, "block_ffn_dim_multiplier": 1.5})  # 666, 999, 1024
    assert by_hand - odd.parameters == 16 * 3 * 2048 * (8192 - 1024)


def test_jamba() -> None:
    """Of 32 layers, 4, 12, 20 and 28 have attention, the others scans; every other one has 16 experts."""
    mlp, attention = 3 * 4096 * 14336, 4096 * (2 * 4096 + 2 * 1024)
    mixed = 16 * (16 * mlp + 16 * 4096) + 16 * mlp
    by_hand = 2 * 65536 * 4096 + mixed + 4 * attention + 28 * scan(4096, 256, normed=True) + 65 * 4096
    assert by_hand == 51_570_323_328
    model = read_config(JAMBA)
    assert model.parameters == by_hand
    assert model.layer_count == 32
    order = [block.name for block in model.layers for _ in range(block.count)]
    assert [n for n, name in enumerate(order) if "state" not in name] == [4, 12, 20, 28]
    assert [n for n, name in enumerate(order) if "moe" in name] == list(range(1, 32, 2))


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"use_bias": True}, 24 * (3072 + 768)), ({"use_conv_bias": False}, -24 * 1536),
        ({"tie_word_embeddings": False}, 50280 * 768), ({"state_size": 32}, 24 * 1536 * 16 * 3),
        ({"conv_kernel": 5}, 24 * 1536), ({"num_hidden_layers": 25}, 768 + scan(768, 48)),
        ({"time_step_rank": 50}, 24 * 1536 * 2 * 2),
    ],
)  # fmt: skip
def test_each_size_of_mamba_counts(changes: dict[str, Any], more: int) -> None:
    assert read_config({**MAMBA, **changes}).parameters == 129_135_360 + more
