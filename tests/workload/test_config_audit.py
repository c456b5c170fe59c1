"""A config.json is read whole, or not at all: unread sizes stop, and so does a name that states another size."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podsim.errors import ModelError
from podsim.workload.catalog import load_model
from podsim.workload.huggingface import read_config
from podsim.workload.model import Model

TABLE: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "configs.json").read_text())
NAMES = (
    "DeepSeek-V3", "GLM-5", "Qwen3-30B-A3B", "Qwen3.5-35B-A3B", "Nemotron-H-56B-Base-8K", "MiniMax-M2.5",
    "gemma-4-26B-A4B", "gpt-oss-20b", "Llama-4-Scout-17B-16E-Instruct", "Mixtral-8x7B-v0.1", "Meta-Llama-3.1-8B",
    "DeepSeek-V4-Flash",
)  # fmt: skip
NOT_TO_BE_SEEN = ("hidden_size_per_layer_input", "enable_moe_block")
"""a 0 and a flag, whose names alone say that they matter: they are named at the top of the answer"""
OTHER_SHAPES = ("rope_scaling", "rope_parameters", "quantization_config", "auto_map", "id2label", "label2id")


def _keys(raw: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in raw.items():
        if key not in OTHER_SHAPES:
            yield (*path, key)
            yield from _keys(value, (*path, key)) if isinstance(value, dict) else ()


def _renamed(raw: dict[str, Any], path: tuple[str, ...], name: str) -> dict[str, Any]:
    """The config with a key under another name; without it for an empty name."""
    if len(path) > 1:
        return {**raw, path[0]: _renamed(raw[path[0]], path[1:], name)}
    renamed = {name if key == path[0] else key: value for key, value in raw.items()}
    return {key: value for key, value in renamed.items() if key}


def _is_near(model: Model, true: Model) -> bool:
    counts = ((model.parameters, true.parameters), (model.active_parameters, true.active_parameters))
    return all(count == pytest.approx(known, rel=0.01) for count, known in counts)


@pytest.mark.parametrize("name", NAMES)
def test_a_size_under_an_unknown_name_stops(name: str) -> None:
    config = TABLE[name]["config"]
    true = read_config(config)
    for path in _keys(config):
        for other in (f"own_{path[-1]}", "unheard_of"):
            try:
                model = read_config(_renamed(config, path, other))
            except ModelError:
                continue
            said = any(other in text or path[-1] in text for text in (*model.doubts, *model.assumptions))
            assert _is_near(model, true) or said, (path, other)
            assert _is_near(model, true) or path[-1] in NOT_TO_BE_SEEN, (path, other)


@pytest.mark.parametrize("name", NAMES)
def test_a_size_that_is_left_out_stops_or_is_said(name: str) -> None:
    config = TABLE[name]["config"]
    true = read_config(config)
    for path in _keys(config):
        if path == ("vision_config",):  # a model of text
            continue
        try:
            model = read_config(_renamed(config, path, ""))
        except ModelError:
            continue
        assert _is_near(model, true) or len(model.assumptions) > len(true.assumptions) or (
            any("not in the file" in text for text in model.assumptions)
        ), path  # fmt: skip


def test_the_message_names_the_key_its_value_and_the_remedy() -> None:
    config = {**TABLE["Qwen3-30B-A3B"]["config"], "num_zero_experts": 896}
    with pytest.raises(ModelError, match=r"num_zero_experts=896 .* --force .* --set model\.FIELD=VALUE"):
        read_config(config)
    forced = read_config(config, forced=True)
    assert forced.parameters == TABLE["Qwen3-30B-A3B"]["parameters"]
    assert "num_zero_experts=896" in forced.doubts[0]


def test_an_unread_key_that_sizes_nothing_is_named() -> None:
    config = {
        **TABLE["Meta-Llama-3.1-8B"]["config"],
        "odd_manner": "calm",
        "rope_theta": 1e4,
        "sep_token_id": 77,
    }
    (doubt,) = read_config(config).doubts
    assert "odd_manner" in doubt
    assert "rope" not in doubt
    assert "token" not in doubt


def test_the_value_of_the_file_goes_before_that_of_the_class() -> None:
    config = TABLE["GLM-5"]["config"]
    renamed = {("num_experts" if key == "n_routed_experts" else key): value for key, value in config.items()}
    assert read_config({**renamed, "num_experts": 2 * config["n_routed_experts"]}).parameters > 1.9 * 7.2e11


@pytest.mark.parametrize(
    ("file", "verdict"),
    [
        ("Zeta-8B", ""), ("zeta-8b-128k-instruct", ""), ("Zeta-7B", "1.15 times apart"), ("Zeta-8x7B", ""),
        ("Zeta-E4B", ""), ("zeta-70b", "stops"), ("Zeta-8B-A1B", "stops"), ("Zeta-8B-A8B", ""), ("zeta-8000M", ""),
        ("zeta-300m", "stops"), ("Zeta-8B-1M", ""), ("Zeta-3_1-8B", ""), ("Zeta-2-1B-8B", ""), ("Zeta-8B-16E", ""),
        ("models--zeta--Zeta-70B/snapshots/abc/config", "stops"), ("Zeta-70B/config", "stops"), ("zeta", ""),
    ],
)  # fmt: skip
def test_a_name_that_states_another_size_stops_or_is_said(tmp_path: Path, file: str, verdict: str) -> None:
    path = tmp_path / f"{file}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(TABLE["Meta-Llama-3.1-8B"]["config"]))
    if verdict == "stops":
        with pytest.raises(ModelError, match=r"8\.03G .* times apart.*--force"):
            load_model(str(path))
        doubts = load_model(str(path), {"model.force": "true"}).doubts
    else:
        doubts = load_model(str(path)).doubts
    assert bool(doubts) == bool(verdict)
    assert all("times apart" in text for text in doubts)
    assert verdict in ("", "stops") or verdict in doubts[0]


def test_experts_in_a_narrower_space() -> None:
    # counted on NemotronHForCausalLM of transformers 5.23 on the meta device
    changes = {
        "moe_latent_size": 1024, "n_routed_experts": 512, "num_experts_per_tok": 22, "hidden_size": 4096,
        "moe_intermediate_size": 2688, "moe_shared_expert_intermediate_size": 5376, "mamba_num_heads": 128,
        "num_attention_heads": 32,
    }  # fmt: skip
    config = TABLE["NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"]["config"]
    assert read_config({**config, **changes}).parameters == 69_890_755_200


def test_an_unknown_family_with_layers_of_its_own_stops() -> None:
    config = {**TABLE["Meta-Llama-3.1-8B"]["config"], "architectures": ["SomethingForCausalLM"]}
    assert "is not known" in read_config({**config, "model_type": "something"}).doubts[0]
    with pytest.raises(ModelError, match="does not say whether the MLP has a gate"):
        read_config({**config, "model_type": "something", "hidden_act": "relu2"})
    with pytest.raises(ModelError, match="layers of its own"):
        read_config({**config, "model_type": "zaya"})
