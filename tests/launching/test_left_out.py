"""What files say beyond a plan: refused or told as not counted where it changes a step, never called of no account."""

from __future__ import annotations

import json

import pytest

from podsim.errors import PlanError
from podsim.launching.job import Reading
from podsim.launching.tools import read

SHAPE = "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --micro-batch-size 1 --bf16"
DEGREES = "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4"
ZERO = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}}
OLD_TITAN = """
[model]
name = "llama3"
flavor = "70B"
[training]
batch_size = 8
seq_len = 8192
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
compile = true
[experimental]
pipeline_parallel_degree = 2
enable_async_tensor_parallel = true
[float8]
enable_float8_linear = true
"""


def megatron(more: str) -> Reading:
    return read(f"torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py {SHAPE} {DEGREES} {more}")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("--cpu-offloading", "GPUs' memory"),
        ("--optimizer-cpu-offload --optimizer-offload-fraction 0.5", "GPUs' memory"),
        ("--standalone-embedding-stage", "first stage"),
        ("--pipeline-model-parallel-split-rank 1", "one stack"),
        ("--hybrid-override-pattern M-M*", "attention and MLP"),
        ("--ds-sequence-parallel-size 2", "a ring"),
        (
            "--decoder-first-pipeline-num-layers 5",
            "5 9 9 9: a plan divides layers as evenly as it can: 8 8 8 8",
        ),
        ("--decoder-last-pipeline-num-layers 9", "do not divide over pp=4"),
        ("--account-for-embedding-in-pipeline-split", "do not divide"),
        ("--window-size wide", "as 1024,0"),
    ],
)
def test_megatron_options_that_no_plan_has_are_refused(more: str, words: str) -> None:
    with pytest.raises(PlanError) as caught:
        megatron(more)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "more",
    [
        "--optimizer sgd", "--grad-reduce-in-bf16", "--use-tp-pp-dp-mapping",
        "--distribute-saved-activations", "--context-parallel-size 2 --cp-comm-type a2a",
        "--recompute-modules moe_act",
    ],
)  # fmt: skip
def test_megatron_options_that_a_prediction_leaves_out_are_told(more: str) -> None:
    found = megatron(more)
    name = more.rsplit(" --", maxsplit=1)[-1].removeprefix("--").split()[0]
    assert any(f"--{name}" in text and "not counted" in text for text in found.assumptions)
    assert not any(name in text for text in found.ignored)


def test_megatron_options_that_change_nothing_are_still_ignored() -> None:
    found = megatron("--optimizer adam --cp-comm-type p2p --lr 1e-4 --squared-relu")
    assert found.ignored == ("--lr 1e-4", "--squared-relu")
    assert not any("not counted" in text for text in found.assumptions)


def test_layers_that_a_plan_divides_the_same_way() -> None:
    text = SHAPE.replace("32 --hidden", "30 --hidden")
    told = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"
    ends = "--decoder-first-pipeline-num-layers 7 --decoder-last-pipeline-num-layers 7"
    for more in (told, ends):
        found = read(f"torchrun --nproc_per_node 8 pretrain_gpt.py {text} {DEGREES} {more}")
        assert (found.plan.pp, found.model["layers"]) == (4, 30)


def test_the_vocabulary_of_a_command() -> None:
    assert megatron("--vocab-size 32000 --padded-vocab-size 32768").model["vocab"] == 32768
    assert megatron("--pad-vocab-size-to 250880").model["vocab"] == 250880
    assert megatron("--tokenizer-type Llama2Tokenizer").model["vocab"] == 32000
    assert megatron("--tokenizer-type GPT2BPETokenizer").model["vocab"] == 50257
    other = megatron("--tokenizer-type HuggingFaceTokenizer")
    assert any("HuggingFaceTokenizer tells none" in text for text in other.assumptions)


def test_positions_windows_and_local_layers() -> None:
    bloom = megatron("--position-embedding-type alibi --embed-layernorm").model
    assert (bloom["position"], bloom["embedding_norm"], bloom["positions"]) == ("alibi", True, 0)
    assert megatron("--window-size 1024,0").model["windows"] == (1024,)
    assert megatron("--window-size 128,0 --window-attn-skip-freq 3").model["windows"] == (128, 128, 0)
    assert megatron("--transformer-impl local").plan.flash is False
    assert megatron("--transformer-impl local --use-flash-attn").plan.flash is True
    assert megatron("--transformer-impl transformer_engine").plan.flash is True


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"activation_checkpointing": {"cpu_checkpointing": True}}, "cpu_checkpointing"),
        ({"sequence_parallel_size": 4}, "a ring"),
    ],
)
def test_deepspeed_settings_that_no_plan_has_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        read(json.dumps(ZERO | changes), gpus=16)


def test_deepspeed_settings_that_a_prediction_leaves_out_are_told() -> None:
    zero = {"stage": 3, "zero_quantized_weights": True, "zero_hpz_partition_size": 8, "mics_shard_size": -1}
    zero["offload_param"] = {"device": "cpu"}
    settings = {
        "zero_optimization": zero, "optimizer": {"type": "OneBitAdam"}, "communication_data_type": "bf16",
        "data_types": {"grad_accum_dtype": "bf16"}, "curriculum_learning": {"enabled": False},
    }  # fmt: skip
    found = read(json.dumps(ZERO | settings), gpus=16)
    told = [text.split(" ")[0] for text in found.assumptions if "not counted" in text]
    assert sorted(told) == [
        "communication_data_type", "data_types.grad_accum_dtype", "optimizer.type",
        "zero_optimization.offload_param", "zero_optimization.zero_hpz_partition_size",
        "zero_optimization.zero_quantized_weights",
    ]  # fmt: skip
    assert set(found.ignored) == {"curriculum_learning", "zero_optimization.mics_shard_size"}
    plain = read(json.dumps(ZERO | {"optimizer": {"type": "AdamW"}}), gpus=16)
    assert plain.ignored == ("optimizer",)


def test_a_torchtitan_file_of_2024_is_read_by_its_old_names() -> None:
    found = read(OLD_TITAN, gpus=256)
    plan = found.plan
    assert (plan.tp, plan.pp, plan.dp, plan.micro_batch, plan.global_batch) == (8, 2, 16, 4, 128)
    assert (plan.zero, plan.precision, plan.software) == (3, "fp8", "torchtitan-2024-compile")
    assert plan.overlap_tp
    assert found.ignored == ()
    now = read(
        OLD_TITAN.replace("[experimental]", "[parallelism]").replace("batch_size", "local_batch_size"),
        gpus=256,
    )
    assert now.plan.pp == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("local_batch_size = 4", "say different things"),
        ("enable_cpu_offload = true", "GPUs' memory"),
        ("magic_parallel_degree = 2", "no degree that is known"),
    ],
)
def test_torchtitan_keys_that_no_plan_has_are_refused(line: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        read(OLD_TITAN.replace("seq_len = 8192", f"seq_len = 8192\n{line}"), gpus=256)


def test_torchtitan_keys_that_a_prediction_leaves_out_are_told() -> None:
    text = OLD_TITAN.replace("seq_len = 8192", 'seq_len = 8192\nmixed_precision_reduce = "bfloat16"')
    found = read(text + '[optimizer]\nname = "Muon"\n', gpus=256)
    told = [words.split(" ")[0] for words in found.assumptions if "not counted" in words]
    assert told == ["training.mixed_precision_reduce", "optimizer.name"]
