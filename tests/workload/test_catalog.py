"""The catalog of models: sizes as published, names, overrides."""

import contextlib
import dataclasses
import json
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsim.errors import CatalogError, ModelError
from podsim.workload.catalog import (
    entries,
    load_model,
    load_specification,
    model_names,
    read_catalog,
    trained_length,
)

TABLE: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "configs.json").read_text())


@pytest.mark.parametrize("name", model_names())
def test_parameters_are_as_published(name: str) -> None:
    model, published = load_model(name), entries()[name].published
    if isinstance(published, int):
        assert model.parameters == published
    else:
        rounded = Decimal(published)
        half_digit = Decimal(5).scaleb(int(rounded.as_tuple().exponent) - 1)
        assert abs(model.parameters - rounded) <= max(half_digit, rounded / 100)
    assert model.source
    assert model.name == name


@pytest.mark.parametrize("name", model_names())
def test_building_is_quick(name: str) -> None:
    load_model(name)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        load_model(name)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 2e-3


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("llama-3.1-405b", "Meta-Llama-3.1-405B"),
        ("llama-2-70b", "llama-2-70b"),
        ("mixtral-8x7b", "Mixtral-8x7B-v0.1"),
        ("qwen3-30b-a3b", "Qwen3-30B-A3B"),
        ("deepseek-v3", "DeepSeek-V3"),
        ("falcon-40b", "falcon-40b"),
        ("gpt2-xl", "gpt2-xl"),
        ("gpt-j-6b", "gpt-j-6b"),
        ("mpt-30b", "mpt-30b"),
        ("t5-11b", "t5-11b"),
        ("bert-large", "bert-large"),
        ("bloom-176b", "bloom"),
        ("opt-175b", "opt-175b"),
    ],
)
def test_catalog_and_config_give_the_same_ops(name: str, config: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TABLE[config]["config"]))
    ours, theirs = load_model(name), load_model(tmp_path)
    assert [b.name for b in ours.layers] == [b.name for b in theirs.layers]
    drops = [op.name for block in theirs.blocks for op in block.ops if op.kind == "dropout"]
    if bool(drops) == any(op.kind == "dropout" for block in ours.blocks for op in block.ops):
        assert ours.blocks == theirs.blocks


def test_reported_shape_of_gpt4() -> None:
    dense, mixture = load_model("gpt4-1.8t"), load_model("gpt4-1.8t-moe")
    assert dense.layer_count == mixture.layer_count == 120
    assert mixture.active_parameters == pytest.approx(280e9, rel=0.05)
    experts = sum(op.weight * b.count for b in mixture.layers for op in b.ops if op.expert) / 16
    assert experts == pytest.approx(111e9, rel=0.03)


# by hand: embedding and head, attention, MLPs and experts, from the published widths; norms are below 0.1 %
@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("moonshotai/Kimi-K2-Instruct", 1026.4e9),  # 60 layers of 385 experts of 3 x 7168 x 2048 are 1017.4e9
        ("moonshotai/Kimi-K2.5", 1026.4e9),
        (
            "zai-org/GLM-4.5",
            352.8e9,
        ),  # 338.1e9 experts, 12.5e9 attention, 1.6e9 embedding and head, 0.6e9 dense
        ("zai-org/GLM-4.5-Air", 106.9e9),  # 100.4e9 experts, 5.0e9 attention, 1.2e9 embedding and head
        ("MiniMaxAI/MiniMax-M2", 228.7e9),  # 224.7e9 experts, 2.7e9 attention, 1.2e9 embedding and head
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 107.8e9),  # 102.7e9 experts, 3.0e9, 2.1e9
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", 400.7e9),  # 389.6e9, 6.0e9 dense, 3.0e9, 2.1e9
        ("xai-org/grok-1", 315.7e9),  # 64 x (8 x 3 x 6144 x 32768 + 88.1e6) + 131072 x 6144
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 480.2e9),
        ("deepseek-ai/DeepSeek-R1", 671.0e9),
    ],
)
def test_repositories_of_this_year_have_their_parameters_by_hand(name: str, by_hand: float) -> None:
    assert load_model(name).parameters == pytest.approx(by_hand, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("Qwen/Qwen3.5-35B-A3B", {"mixer": "state"}),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {"mixer": "state", "feed": False}),
    ],
)
def test_layers_of_a_pattern_differ(name: str, config: dict[str, Any]) -> None:
    layers = load_specification(name).variations
    assert sum(config.items() <= dict(changes).items() for changes in layers) == {40: 30, 52: 23}[len(layers)]


def test_aliases_and_case() -> None:
    assert load_model("gpt-3") == load_model("GPT3-175B")
    assert load_model("llama3.1-8b") == load_model("llama-3.1-8b")


def test_unknown_name_tells_the_closest() -> None:
    with pytest.raises(ModelError, match=r"unknown model 'lama-3-8b': did you mean llama-3-8b"):
        load_model("lama-3-8b")


@pytest.mark.parametrize("name", ["missing.json", "no/such/folder", "a\0b", "", "x" * 9999])
def test_no_model_is_an_error(name: str) -> None:
    with pytest.raises(ModelError):
        load_model(name)


def test_overrides() -> None:
    model = load_model(
        "gpt-1.7b", {"sequence": "8192", "model.layers": 2, "tied": "false", "windows": "64,0"}
    )
    assert (model.sequence, model.layer_count, model.tied_embeddings) == (8192, 2, False)
    assert [op.window for b in model.layers for op in b.ops if op.core] == [64, 0]
    assert model.attributes["positions"] == 8192, "a position table follows the sequence"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"foo": 1, "layers": "many"}, ["unknown field 'foo'", "layers='many'"]),
        ({"layerz": 1}, ["did you mean layers"]),
        ({"tied": "maybe"}, ["tied='maybe'"]),
        ({"heads": "7"}, ["heads=7 does not divide"]),
        ({"layers": "-3"}, ["layers=-3"]),
        ({"layers": "٣"}, ["layers="]),
        ({"layers": 3.5}, ["layers=3.5"]),
        ({"windows": "a"}, ["windows='a'"]),
        ({"source": "me"}, ["unknown field 'source'"]),
        ({"position": "sine"}, ["learned, rope"]),
    ],
)
def test_bad_overrides_are_told(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ModelError) as caught:
        load_model("gpt-1.7b", changes)
    for word in words:
        assert word in str(caught.value)


FIELD_NAMES = st.sampled_from(sorted(load_model("gpt2").attributes))
ANY_VALUE = (
    st.integers()
    | st.text(max_size=9)
    | st.booleans()
    | st.none()
    | st.floats()
    | st.lists(st.integers(), max_size=2)
)


@given(st.dictionaries(FIELD_NAMES, ANY_VALUE, max_size=3))
def test_any_override_is_taken_or_refused(changes: dict[str, Any]) -> None:
    with contextlib.suppress(ModelError):
        assert load_model("gpt2", changes).parameters > 0


def test_catalog_without_source_is_refused() -> None:
    text = '[models.a]\nfamily="gpt"\npublished=1\nlayers=1\nhidden=1\nheads=1\nvocab=1\nsequence=1\n'
    with pytest.raises(CatalogError, match="a lacks source"):
        read_catalog(text)
    good = text + 'source="here"\n'
    assert read_catalog(good)["a"].published == 1
    with pytest.raises(CatalogError, match="unknown key 'layerz'"):
        read_catalog(good + "layerz=1\n")
    twice = good + good.replace("models.a", "models.b") + 'aliases=["a"]\n'
    with pytest.raises(CatalogError, match="a is named twice"):
        read_catalog(twice)
    with pytest.raises(CatalogError, match="catalog of models"):
        read_catalog("[")


def test_the_trained_length_is_the_models_own_or_its_familys() -> None:
    llama = load_model("llama-3.1-8b")
    own = trained_length(llama)
    assert (own.tokens, own.source) == (llama.sequence, llama.source)
    other = dataclasses.replace(llama, name="mine", source="a file", sequence=10**7)
    known = trained_length(other)
    assert known.tokens < 10**7
    assert known.source != "a file"
    short = trained_length(dataclasses.replace(other, sequence=100))
    assert (short.tokens, short.source) == (100, "a file")
    assert trained_length(dataclasses.replace(other, family=f"{other.family}_text")) == known


def test_a_model_was_trained_at_its_familys_length_or_its_shorter_window() -> None:
    own = load_model("gpt3-175b")
    assert trained_length(own) == (2048, own.source)
    llama = dataclasses.replace(own, name="mine", family="llama_text", sequence=131072)
    assert trained_length(llama).tokens == 8192
    assert "2407.21783" in trained_length(llama).source
    for tokens in (8192, 1024):
        assert trained_length(dataclasses.replace(llama, sequence=tokens)) == (tokens, own.source)
    other = trained_length(dataclasses.replace(llama, family="unheard-of"))
    assert (other.tokens, other.source[:13]) == (8192, "8,192 tokens:")
