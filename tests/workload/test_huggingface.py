"""config.json of every family: exact parameters; and bad input of every kind, only ever a ModelError.

Each of configs.json is the content of the model's own config.json, with its published parameters; where the
model's page rounds them, they were counted on the class in transformers 5.23. Small odd shapes are ours.
"""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podsim.errors import ModelError
from podsim.workload.huggingface import FAMILIES, read_config, read_specification

TABLE: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "configs.json").read_text())
LLAMA: dict[str, Any] = TABLE["llama-2-70b"]["config"]
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("name", TABLE)
def test_parameters_are_exact(name: str) -> None:
    assert read_config(TABLE[name]["config"]).parameters == TABLE[name]["parameters"]


def test_every_family_is_tested() -> None:
    assert {read_config(row["config"]).family for row in TABLE.values()} >= set(FAMILIES)


def test_active_parameters_of_mixtures() -> None:
    # Mixtral 12.9e9 (arXiv 2401.04088); DeepSeek-V3 37e9; Qwen3-30B-A3B 3.3e9: as published
    for name, active in (("Mixtral-8x7B-v0.1", 12.9e9), ("DeepSeek-V3", 37e9), ("Qwen3-30B-A3B", 3.3e9)):
        assert read_config(TABLE[name]["config"]).active_parameters == pytest.approx(active, rel=0.02)


def test_trained_length() -> None:
    assert read_config(TABLE["Meta-Llama-3.1-8B"]["config"]).sequence == 8192
    assert read_config(TABLE["DeepSeek-V3"]["config"]).sequence == 4096
    assert read_config(TABLE["gpt2"]["config"]).sequence == 1024
    assert read_config(TABLE["roberta-base"]["config"]).sequence == 512


def test_names_of_files(tmp_path: Path) -> None:
    for place in ("one/config.json", "one.json", "one.config.json"):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(LLAMA))
        assert read_config(path).name == "one"
        assert read_config(str(path)).parameters == TABLE["llama-2-70b"]["parameters"]
    assert read_config(tmp_path / "one").name == "one"


def test_synonyms() -> None:
    config = TABLE["gpt2"]["config"]
    renamed = {"n_layer": "num_hidden_layers", "n_embd": "hidden_size", "n_head": "num_attention_heads"}
    assert read_config({renamed.get(k, k): v for k, v in config.items()}).parameters == 124_439_808
    assert read_config({**config, "n_inner": None}).parameters == 124_439_808
    assert read_config({k: v for k, v in config.items() if k != "architectures"}).parameters == 124_439_808
    assert read_config({k: v for k, v in config.items() if k != "model_type"}).parameters == 124_439_808


def test_kv_heads_absent_is_one_for_each_head() -> None:
    config = {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}
    (core,) = [op for op in read_config(config).layers[0].ops if op.core]
    assert (core.heads, core.kv_heads) == (64, 64)


def test_windows_of_families() -> None:
    def windows(name: str, **changes: object) -> list[int]:
        model = read_config({**TABLE[name]["config"], **changes})
        return [op.window for block in model.layers for op in block.ops * block.count if op.core]

    assert windows("gemma-2-9b") == [4096, 0] * 21
    assert windows("gemma-3-1b") == ([512] * 5 + [0]) * 4 + [512] * 2
    assert windows("mistral-7b") == [4096] * 32
    assert windows("mistral-7b", sliding_window=None) == [0] * 32
    assert windows("gpt-neo-125m") == [0, 256] * 6
    assert windows("qwen2-7b", use_sliding_window=True, max_window_layers=26) == [0] * 26 + [131072] * 2
    typed = ["sliding_attention"] * 3 + ["full_attention"] * 33
    layers = {"use_sliding_window": True, "sliding_window": 64, "layer_types": typed}
    assert windows("qwen3-8b", **layers) == [64] * 3 + [0] * 33


def test_text_part_of_a_multimodal_model() -> None:
    model = read_config(TABLE["gemma-3-4b"]["config"])
    assert (model.family, model.layer_count) == ("gemma3_text", 34)
    assert "text part only" in model.source


def test_trained_precision_is_no_quantisation() -> None:
    assert read_config(TABLE["DeepSeek-V3"]["config"]).parameters > 0
    quantised = read_specification({**LLAMA, "quantization_config": {"quant_method": "gptq", "bits": 4}})
    assert "'gptq'" in quantised.assumptions[0]


def _changed(**changes: object) -> dict[str, Any]:
    return {**LLAMA, **changes}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, ["model_type", "llama"]),
        ({"model_type": "llama"}, ["num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size"]),
        (_changed(hidden_size=-1, vocab_size=0), ["hidden_size=-1", "vocab_size=0"]),
        (_changed(num_hidden_layers=10**9), ["num_hidden_layers=1000000000", "10000"]),
        (_changed(num_attention_heads=0), ["num_attention_heads=0"]),
        (_changed(num_attention_heads=63, num_key_value_heads=None), ["63", "8192"]),
        (_changed(hidden_size=True), ["hidden_size=True"]),
        (_changed(hidden_size="8192"), ["hidden_size='8192'"]),
        (_changed(hidden_size=8192.0), ["hidden_size=8192.0"]),
        (_changed(hidden_size=float("nan")), ["hidden_size=nan"]),
        (_changed(hidden_size=[1]), ["hidden_size=a list"]),
        (_changed(tie_word_embeddings="no"), ["tie_word_embeddings"]),
        (_changed(rope_scaling=[1]), ["rope_scaling"]),
        (_changed(quantization_config="int4"), ["quantization_config"]),
        (_changed(architectures="LlamaForCausalLM"), ["architectures"]),
        (_changed(architectures=["LlamaForSequenceClassification"]), ["LlamaForSequenceClassification"]),
        ({"model_type": "lama"}, ["unknown architecture 'lama'", "did you mean llama"]),
        (
            {"model_type": "mambo", "architectures": ["MamboForCausalLM"]},
            ["unknown architecture 'mambo'", "mamba"],
        ),
        ({"model_type": "mamba", "architectures": ["MambaForCausalLM"]}, ["num_hidden_layers", "is missing"]),
        ({"model_type": 7}, ["model_type"]),
        ({**TABLE["gpt2"]["config"], "resid_pdrop": 2}, ["resid_pdrop"]),
        ({**TABLE["gpt2"]["config"], "resid_pdrop": 10**400}, ["resid_pdrop"]),
        ({**TABLE["gpt2"]["config"], "add_cross_attention": True}, ["add_cross_attention"]),
        ({**TABLE["gpt-neo-125m"]["config"], "attention_types": [[["global"], 3]]}, ["attention_types"]),
        ({**TABLE["gpt-neo-125m"]["config"], "attention_types": [7]}, ["attention_types"]),
        ({**TABLE["mpt-7b"]["config"], "ffn_config": {"ffn_type": "mb_moe"}}, ["ffn_config.ffn_type"]),
        ({**TABLE["bert-large"]["config"], "position_embedding_type": "relative_key"}, ["relative_key"]),
        (
            {**TABLE["bert-large"]["config"], "architectures": ["BertForMultipleChoice"]},
            ["BertForMultipleChoice"],
        ),
        ({**TABLE["bert-large"]["config"], "is_decoder": True}, ["is_decoder"]),
        ({**TABLE["qwen3-8b"]["config"], "use_sliding_window": True, "layer_types": ["x"]}, ["layer_types"]),
        ({**TABLE["qwen3-235b"]["config"], "num_experts_per_tok": 129}, ["top_k=129", "experts=128"]),
        ({**TABLE["qwen3-235b"]["config"], "mlp_only_layers": ["0"]}, ["mlp_only_layers"]),
        ({**TABLE["deepseek-v2"]["config"], "mlp_bias": True}, ["mlp_bias"]),
    ],
)
def test_bad_configs_are_told(config: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ModelError) as caught:
        read_config(config)
    for word in words:
        assert word in str(caught.value)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100_000_000)


BAD_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (lambda path: path.write_text(json.dumps(LLAMA)[:100]), "complete"),
    "no JSON": (lambda path: path.write_text("hidden_size = 4"), "is not JSON"),
    "empty": (lambda path: path.write_text(""), "is not JSON"),
    "a list": (lambda path: path.write_text("[1, 2]"), "a list"),
    "a number": (lambda path: path.write_text("7"), "holds 7"),
    "null": (lambda path: path.write_text("null"), "None"),
    "binary": (lambda path: path.write_bytes(bytes(range(256)) * 9), "UTF-8"),
    "100 MB": (_sparse, "100000000 bytes"),
    "deep lists": (lambda path: path.write_text("[" * 200_000), "nested"),
    "deep objects": (lambda path: path.write_text('{"a":' * 200_000), "nested"),
    "thousands of digits": (lambda path: path.write_text('{"a": ' + "1" * 10_000 + "}"), "digits"),
    "missing": (lambda path: None, "No such file"),
    "an empty folder": (lambda path: path.mkdir(), "No such file"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_told(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    write, word = BAD_FILES[name]
    write(path)
    with pytest.raises(ModelError, match=word):
        read_config(path)


@pytest.mark.parametrize("source", ["a\0b", "x" * 5000, "", 7, None, [LLAMA]])
def test_bad_sources_are_told(source: Any) -> None:
    with pytest.raises(ModelError):
        read_config(source)


def test_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA).encode())
    assert read_config(path).parameters == TABLE["llama-2-70b"]["parameters"]


def reads_or_refuses(config: Any) -> None:
    with contextlib.suppress(ModelError):
        assert read_config(config).parameters > 0


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, 2, 8, 64, -1, 10**9, 10**400])
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(["llama", "sliding_attention", "gated-gelu", "relu"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
KEYS = sorted({key for row in TABLE.values() for key in row["config"]})


@quick
@given(
    st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=9), VALUES, max_size=8),
    st.sampled_from(list(FAMILIES)),
)
def test_any_object_is_read_or_refused(config: dict[str, Any], family: str) -> None:
    reads_or_refuses(config)
    reads_or_refuses({**config, "model_type": family})
    reads_or_refuses({"text_config": config, "model_type": family})


@quick
@given(
    st.sampled_from(list(TABLE)),
    st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3),
    st.data(),
)
def test_any_mutation_is_read_or_refused(name: str, changes: dict[str, Any], data: st.DataObject) -> None:
    config = TABLE[name]["config"]
    reads_or_refuses({**config, **changes})
    own = data.draw(st.sampled_from(sorted(config)))
    reads_or_refuses({**config, own: data.draw(VALUES)})
    reads_or_refuses({key: value for key, value in config.items() if key != own})


@quick
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "config.json"
    path.write_bytes(content)
    reads_or_refuses(path)


@quick
@given(st.sampled_from(list(TABLE)), st.floats(0, 1))
def test_any_cut_is_refused(tmp_path_factory: pytest.TempPathFactory, name: str, share: float) -> None:
    text = json.dumps(TABLE[name]["config"])
    path = tmp_path_factory.mktemp("cut") / "config.json"
    path.write_text(text[: int(share * (len(text) - 1))])
    with pytest.raises(ModelError):
        read_config(path)
