"""Models, sequences and batches as users write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podsim.errors import PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.training.job_inputs import batch_of, cluster_notes, read_inputs, read_sequence
from podsim.workload.catalog import load_model


@pytest.mark.parametrize(("text", "tokens"), [
    ("8k", 8192), ("128K", 131072), (4096, 4096), ("8,192", 8192), ("0.5k", 512), ("1M", 1048576), ("1Mi", 1048576),
])  # fmt: skip
def test_a_sequence_is_tokens_with_or_without_a_binary_prefix(text: int | str, tokens: int) -> None:
    assert read_sequence(text) == tokens


@pytest.mark.parametrize(
    ("text", "sequence", "gpus", "sequences"),
    [
        (1024, 8192, 64, 1024), ("1,024", 8192, 64, 1024), ("1024 sequences", 8192, 64, 1024), ("4M", 8192, 64, 512),
        ("4M tokens", 4096, 64, 1024), ("0.5M", 2048, 8, 256), ("16M", 8192, 512, 2048), ("4M", 8192, 72, 504),
        ("1536k", 8192, 64, 192), ("4e6 tokens", 8192, 64, 512),
    ],
)  # fmt: skip
def test_a_batch_counts_sequences_or_tokens(
    text: int | str, sequence: int, gpus: int, sequences: int
) -> None:
    assert batch_of(text, sequence, gpus) == (sequences, False)


@pytest.mark.parametrize(("text", "notes"), [
    ("dgx-h100:8", ()), ("h100", ("h100: 8 x dgx-h100 (64 h100-sxm5-80gb GPUs)",)), ("mine.TOML", ()),
])  # fmt: skip
def test_a_note_says_what_a_short_name_stands_for(text: str, notes: tuple[str, ...]) -> None:
    assert cluster_notes(text, load_cluster("dgx-h100:8")) == notes


@pytest.mark.parametrize("text", ["1k", "four", "0", "", "-4M", "4GB"])
def test_a_batch_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(PodsimError, match="batch="):
        batch_of(text, 8192, 64)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"), ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        ("Llama 3.1 8B", "llama-3.1-8b"), ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"), ("GPT-2 XL", "gpt2-xl"),
        ("google-bert/bert-large-uncased", "bert-large"), ("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"),
    ],
)  # fmt: skip
def test_a_repository_is_the_model_of_the_catalog(text: str, name: str) -> None:
    assert load_model(text).name == name


def test_an_unknown_repository_says_where_its_config_is() -> None:
    with pytest.raises(PodsimError, match=r"huggingface.co/some/Model-9B/raw/main/config.json"):
        load_model("some/Model-9B")


def test_a_config_is_trained_at_the_length_of_its_family(tmp_path: Path) -> None:
    config = {
        "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 4, "hidden_size": 512,
        "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000,
        "max_position_embeddings": 40960, "head_dim": 64, "hidden_act": "silu",
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    inputs = read_inputs(path, "h100", 8, None, None)
    assert inputs.model.sequence == 4096
    assert any("4,096" in note and "2505.09388" in note for note in inputs.notes)
    assert read_inputs(path, "h100", 8, "32k", None).model.sequence == 32768
    path.write_text(json.dumps(config | {"max_position_embeddings": 2048}))
    assert read_inputs(path, "h100", 8, None, None).model.sequence == 2048
