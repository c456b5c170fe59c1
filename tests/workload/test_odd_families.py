"""Families that functions complete, the sizes laws of the loss count, and loaders of images: by hand."""

from __future__ import annotations

from typing import Any

import pytest

from podsim.errors import PlanError
from podsim.workload.catalog import load_model, network_size
from podsim.workload.config_json import Config
from podsim.workload.huggingface import read_config
from podsim.workload.image_loaders import image_loaders, load_image_loader, loader_of_software
from podsim.workload.odd_families import bitnet, gemma3n, longcat, neox_japanese
from podsim.workload.state_keys import convolution, kimi, lightning

VIT = {
    "model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 768, "num_hidden_layers": 12,
    "num_attention_heads": 12, "intermediate_size": 3072, "image_size": 224, "patch_size": 16, "num_channels": 3,
    "num_labels": 1000, "hidden_act": "gelu", "qkv_bias": True,
}  # fmt: skip


def test_vit_base() -> None:
    """86,567,656 parameters, as its card says: 197 places, patches of 768 elements, 1,000 labels."""
    assert read_config(VIT).parameters == 86_567_656
    assert read_config({**VIT, "num_labels": 10}).parameters == 86_567_656 - 990 * 769
    assert read_config({**VIT, "image_size": [384, 384]}).parameters == 86_567_656 + (24**2 - 14**2) * 768
    named = {
        **{k: v for k, v in VIT.items() if k != "num_labels"},
        "id2label": {str(n): "x" for n in range(7)},
    }
    assert read_config(named).parameters == 86_567_656 - 993 * 769


def test_gemma_3n_by_hand() -> None:
    """Two streams: 4 + 8 coefficients, three norms; the last of three layers takes keys and values from another."""
    raw: dict[str, Any] = {
        "altup_num_inputs": 2, "laurel_rank": 5, "num_kv_shared_layers": 1, "sliding_window": 7,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    }  # fmt: skip
    fields = {"hidden": 8, "layers": 3, "head_dim": 4, "vocab": 100}
    made = gemma3n(Config(raw=raw), fields)
    assert (made["plain"], made["head_plain"], made["windows"]) == (3 * 8 + 4 + 8, 2 * 1 * 64, (7, 0, 7))
    assert made["variations"] == ((), (), (("plain", 36 - 4), ("shared_keys", True)))
    router = [("altup_router", 8, 2), ("laurel_left", 8, 5), ("laurel_right", 5, 8)]
    assert list(made["extras"]) == router
    more = gemma3n(
        Config(raw={**raw, "hidden_size_per_layer_input": 6, "vocab_size_per_layer_input": 50}), fields
    )
    assert more["head_plain"] - made["head_plain"] == 50 * 6 * 3 + 6 * 3 * 8 + 6
    assert more["plain"] - made["plain"] == 8
    assert list(more["extras"]) == [("input_gate", 8, 6), ("input_projection", 6, 8), *router]


def test_smaller_families_by_hand() -> None:
    c = Config(raw={})
    assert bitnet(c, {"hidden": 8, "ffn": 20}) == {"plain": 28}
    assert neox_japanese(c, {"hidden": 8}) == {"ffn": 32, "head_plain": 8}
    assert neox_japanese(Config(raw={"intermediate_multiple_size": 3}), {"hidden": 8})["ffn"] == 24
    assert longcat(c, {"layers": 3}) == {"layers": 6, "dense_layers": (0, 2, 4), "dense_beside": True}


def test_linear_attention_by_hand() -> None:
    """Kimi: three widths in and a number a head; Lightning: three and a gate. Both of two heads of width 4."""
    own = {"linear_attn_config": {"num_heads": 2, "head_dim": 4, "short_conv_kernel_size": 5}}
    made = kimi(Config(raw=own), 16)
    assert (made["state_input"], made["state_channels"], made["state_taps"]) == (3 * 8 + 2, 24, 5)
    assert (made["state_width"], made["state_dim"], made["plain"]) == (8, 4, 8 + 2 + 4)
    low_rank = {"decay_down": (16, 4), "decay_up": (4, 8), "gate_down": (16, 4), "gate_up": (4, 8)}
    assert {name: sizes for name, *sizes in made["extras"]} == {
        name: [*pair] for name, pair in low_rank.items()
    }
    bare, biased = (convolution(Config(raw=raw), 16) for raw in ({"conv_L_cache": 3}, {"conv_bias": True}))
    assert (bare["state_input"], bare["state_channels"], bare["state_width"], bare["plain"]) == (
        48,
        16,
        16,
        0,
    )
    assert (biased["state_taps"], biased["state_bias"], biased["plain"]) == (3, True, 48 + 16)
    plain = lightning(Config(raw={"num_attention_heads": 2, "head_dim": 4}), 16)
    assert plain == {"state_input": 32, "state_width": 8, "state_dim": 4, "state_chunk": 256, "plain": 8}
    assert lightning(Config(raw={"num_attention_heads": 2, "block_size": 64}), 16)["state_width"] == 16


def test_what_laws_of_the_loss_count() -> None:
    """GPT-2 has 124,439,808 parameters; 50,257 and 1,024 rows of 768 are tables."""
    assert network_size("7B", "all") == ("7B parameters", 7e9, [])
    assert network_size("gpt2", "all") == ("gpt2", 124_439_808.0, [])
    assert network_size("gpt2", "non-embedding")[1] in (124_439_808 - 50257 * 768, 124_439_808 - 51281 * 768)
    mixture = load_model("mixtral-8x7b")
    name, size, (remark,) = network_size("mixtral-8x7b", "all")
    assert (name, size) == ("mixtral-8x7b", mixture.active_parameters)
    assert remark.startswith("12.88 G of 46.7 G parameters work on a token")
    assert "is no decoder" in network_size("bert-large", "all")[2][0]


def test_loaders_of_images() -> None:
    """One core takes 2.6 ms for 224 x 224 pixels, four times as long for 448 x 448, and no less for fewer."""
    native = load_image_loader("native")
    assert native.core_seconds() == pytest.approx(2.6e-3)
    assert native.core_seconds(448 * 448) == pytest.approx(4 * 2.6e-3)
    assert native.core_seconds(100 * 100) == pytest.approx(2.6e-3)
    assert load_image_loader("dali").core_seconds() == pytest.approx(1.15e-3)
    assert list(image_loaders()) == ["native", "dali", "synthetic"]
    assert load_image_loader("synthetic").core_seconds(1e9) == 0
    assert [loader_of_software(name) for name in ("dle-pytorch-pillow", "mlperf-mxnet", "megatron-core")] == [
        "native", "dali", "synthetic",
    ]  # fmt: skip
    with pytest.raises(PlanError, match="did you mean dali"):
        load_image_loader("daly")
