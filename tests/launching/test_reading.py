"""Files as people have them: scripts with variables, published configurations; and every class of broken ones."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import PlanError, PodsimError
from podsim.launching.bridge import _yaml_keys
from podsim.launching.shell import _arithmetic, commands
from podsim.launching.tools import TOOLS, read

Run = Callable[..., Result]

SCRIPT = """#!/bin/bash
# Runs a GPT model on two nodes
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NNODES:-2}
WORLD_SIZE=$(($GPUS_PER_NODE*$NUM_NODES))
VOCAB_FILE=$1   # path of a vocabulary
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr ${MASTER_ADDR:-localhost}
)
GPT_MODEL_ARGS=(
    --num-layers 24   # layers
    --hidden-size 2048
    --num-attention-heads 16
    --seq-length 2048
    --max-position-embeddings 2048
)
TRAINING="--micro-batch-size 4 \\
  --global-batch-size 64 --fp16 --lr 6.0e-5"
MODEL_PARALLEL_ARGS=(
    --tensor-model-parallel-size 4
    --pipeline-model-parallel-size 2
    --num-layers-per-virtual-pipeline-stage 6
    --sequence-parallel
    --use-distributed-optimizer
    --recompute-activations
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \\
    ${GPT_MODEL_ARGS[@]} $TRAINING "${MODEL_PARALLEL_ARGS[@]}" --vocab-file $VOCAB_FILE --eval-iters 10 > log 2>&1
"""
TITAN = """
[job]
dump_folder = "./outputs"
[model]
name = "llama3"
flavor = "70B"
[optimizer]
lr = 1.5e-4
[training]
local_batch_size = 8
seq_len = 8192
[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
[activation_checkpoint]
mode = "full"
[float8]
enable_fsdp_float8_all_gather = false
"""
ZERO = {
    "train_batch_size": 512, "train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3, "overlap_comm": True, "reduce_bucket_size": 5e8}, "wall_clock_breakdown": False,
}  # fmt: skip


def test_a_script_with_variables() -> None:
    found = read(SCRIPT)
    plan = found.plan
    assert found.tool == "torchrun"
    assert found.gpus == 16
    assert (plan.tp, plan.pp, plan.dp, plan.virtual_stages) == (4, 2, 2, 2)
    assert (plan.micro_batch, plan.global_batch, plan.sequence, plan.zero) == (4, 64, 2048, 1)
    assert plan.sequence_parallel
    assert plan.precision == "fp16"
    assert plan.describe()["recompute"] == "selective"
    assert found.model["layers"] == 24
    assert "--vocab-file $1" in found.ignored
    assert "--lr 6.0e-5" in found.ignored
    assert any("--vocab-size" in text for text in found.assumptions)


def test_a_script_is_predicted(podsim: Run, tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(SCRIPT)
    told = podsim("launch", "--read", tmp_path / "train.sh", "--on", "dgx-a100-80gb:2")
    assert told.exit_code == 0
    assert "tp=4 pp=2 dp=2" in told.stdout
    assert "a step" in told.stdout
    again = podsim("launch", "--read", "-", "--on", "dgx-a100-80gb:2", "--json", input=SCRIPT)
    assert json.loads(again.stdout)["prediction"]["step_time"] > 0
    csv = podsim("launch", "--read", tmp_path / "train.sh", "--csv").stdout.splitlines()
    assert len(csv) == 2


def test_a_torchtitan_file_with_all_gpus_that_are_left() -> None:
    found = read(TITAN, gpus=64)
    assert (found.plan.tp, found.plan.dp, found.plan.zero, found.plan.shard) == (8, 8, 3, 0)
    assert found.plan.sequence_parallel
    assert (found.plan.micro_batch, found.plan.global_batch) == (8, 64)
    assert found.ignored == ("float8.enable_fsdp_float8_all_gather = False",)
    with pytest.raises(PlanError, match="give --gpus"):
        read(TITAN)
    # weights are gathered again for the backward pass, or stay
    for word, zero in (("always", 3), ("never", 2)):
        said = TITAN.replace("[parallelism]\n", f'[parallelism]\nfsdp_reshard_after_forward = "{word}"\n')
        assert read(said, gpus=64).plan.zero == zero


def test_a_torchtitan_file_brings_its_model_along(podsim: Run, tmp_path: Path) -> None:
    (tmp_path / "train.toml").write_text(TITAN)
    told = podsim("launch", "--read", tmp_path / "train.toml", "--on", "dgx-a100-80gb:8")
    assert "llama-3.1-70b on 64 GPUs of dgx-a100-80gb:8" in told.stdout, told.stderr
    (tmp_path / "train.toml").write_text(TITAN.replace("70B", "mine"))
    assert (
        "give MODEL" in podsim("launch", "--read", tmp_path / "train.toml", "--on", "dgx-a100-80gb:8").stderr
    )


def test_a_deepspeed_file(podsim: Run, tmp_path: Path) -> None:
    text = json.dumps(ZERO)
    found = read(text, gpus=64)
    assert (found.plan.dp, found.plan.micro_batches, found.plan.zero) == (64, 2, 3)
    assert "wall_clock_breakdown" in found.ignored
    assert "zero_optimization.reduce_bucket_size" in found.ignored
    (tmp_path / "ds.json").write_text(text)
    told = podsim("launch", "llama-3.1-8b", "--read", tmp_path / "ds.json", "--on", "dgx-a100-80gb:8")
    assert told.exit_code == 1, told.stderr  # read and predicted; four whole sequences do not fit
    assert "64 GPUs" in told.stdout
    refused = podsim("launch", "--read", tmp_path / "ds.json", "--on", "dgx-a100-80gb:8")
    assert refused.exit_code == 2
    assert "give MODEL" in refused.stderr


@pytest.mark.parametrize(
    ("changes", "gpus", "shape"),
    [
        ({"gradient_accumulation_steps": 4}, None, (32, 4, 4)),
        ({"gradient_accumulation_steps": "auto", "train_micro_batch_size_per_gpu": "auto"}, 64, (64, 8, 1)),
        ({"train_batch_size": "auto", "gradient_accumulation_steps": 2}, 8, (8, 4, 2)),
        ({"train_batch_size": "auto"}, 8, (8, 4, 1)),
        ({"tensor_parallel": {"autotp_size": 4}}, 64, (16, 4, 8)),
    ],
)
def test_deepspeed_finds_the_third_of_its_batches(
    changes: dict[str, object], gpus: int | None, shape: tuple[int, int, int]
) -> None:
    plan = read(json.dumps(ZERO | changes), gpus=gpus).plan
    assert (plan.dp, plan.micro_batch, plan.micro_batches) == shape


def test_options_of_older_releases_and_of_megatron_deepspeed() -> None:
    text = (
        "deepspeed --num_gpus 8 --num_nodes=2 pretrain_gpt.py --model-parallel-size 4 --num-layers 24 --hidden-size 2048"
        " --num-attention-heads 16 --seq-length 1024 --batch-size 4 --checkpoint-activations --fp16"
    )
    plan = read(text).plan
    assert (plan.tp, plan.dp, plan.micro_batch, plan.zero) == (4, 4, 4, 0)
    assert plan.describe()["recompute"] == "full"
    assert read(text).model["ffn"] == 8192
    # of a gated MLP two thirds, 5,461.3, in whole 64s (megatron/training/arguments.py)
    assert read(text + " --swiglu").model["ffn"] == 85 * 64
    sharded = read(text + " --zero-stage 1 --deepspeed_config ds.json")
    assert sharded.plan.zero == 1
    assert any("was not read" in told for told in sharded.assumptions)


def test_an_sbatch_script_as_people_write_it() -> None:
    text = """#!/bin/bash
#SBATCH -N 4 --ntasks-per-node=1   # nodes
#SBATCH --gres=gpu:a100:8
srun --container-image nvcr.io#nvidia/pytorch:24.07-py3 bash -c "torchrun --nnodes=$SLURM_NNODES \\
  --nproc_per_node=8 pretrain_gpt.py --micro-batch-size 1 --tensor-model-parallel-size 8 --seq-length 512"
"""
    found = read(text)
    assert (found.gpus, found.plan.tp, found.plan.dp) == (32, 8, 4)
    assert read(text.replace("torchrun --nnodes=$SLURM_NNODES \\\n  --nproc_per_node=8", "python").replace(
        "per-node=1", "per-node=8")).gpus == 32  # fmt: skip


BASE = "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --micro-batch-size 1 "


@pytest.mark.parametrize(
    ("text", "gpus", "words"),
    [
        ("", None, ["empty"]),
        ("hello", None, ["starts no training"]),
        ("echo 'never ends", None, ["never ends", "line 1"]),
        ("\n" + "A=(" * 5000, None, ["line 2", "an array inside an array"]),
        (BASE, None, ["give --gpus"]),
        (BASE + "--tensor-model-parallel-size 3", 16, ["3 x 1 x 1 = 3 does not divide the world of 16 GPUs"]),
        (BASE + "--tensor-model-parallel-size eight --bf16 --fp16", 8,
         ["'eight' is no whole number", "--bf16 and --fp16"]),
        (BASE + "--tensor-model-parallel-size", 8, ["takes one value, 0 are given"]),
        (BASE + "--micro-batch-size 2", 8, ["--micro-batch-size is given twice"]),
        (BASE + "--sequence-parallel 4", 8, ["switch and takes no value"]),
        (BASE + "--pipeline-model-parallel-size $PP", 8, ["not set in the script"]),
        (BASE + "--recompute-granularity full", 8, ["needs --recompute-method"]),
        (BASE + "--recompute-granularity some", 8, ["may be full, selective"]),
        (BASE + "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 5", 8, ["does not divide"]),
        (
            BASE + "--num-virtual-stages-per-pipeline-rank 2 --num-layers-per-virtual-pipeline-stage 2", 8,
            ["exclude each other"],
        ),
        (BASE + "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*4|t*20L'", 8, ["Et*12|t*12L"]),
        (BASE + "--pipeline-model-parallel-layout Etq", 8, ["may hold E, t, m, L"]),
        (BASE + "--data-parallel-sharding-strategy optim_grads", 8, ["needs --use-megatron-fsdp"]),
        (BASE + "--exp-avg-dtype bf16 --exp-avg-sq-dtype fp8", 8, ["both moments alike"]),
        (BASE + "--num-experts 4 --moe-layer-freq [0]*3", 8, ["a list of 24 zeros and ones"]),
        ("torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py " + BASE, 8, ["starts 16 ranks, but 8"]),
        ("torchrun --nnodes two pretrain_gpt.py " + BASE, 8, ["'two' is no whole number"]),
        ("#SBATCH --nodes=2 --gpus-per-node=8\npython train.py", None, ["starts no training that is known"]),
        (
            "#SBATCH --nodes=4 --gpus-per-node=8\nsrun torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py " + BASE,
            None, ["starts 16 ranks, but 32"],
        ),
        ("{", None, ["not JSON"]),
        ("[{}]", None, ["no object"]),
        ("{}", None, ["has none of"]),
        ('{"train_batch_size": 0, "zero_optimization": {"stage": 4}, "bf16": {"enabled": 1}}', 8,
         ["train_batch_size = 0", "may be 0, 1, 2, 3", "true or false"]),
        (json.dumps(ZERO | {"gradient_accumulation_steps": 3}), 8, ["no multiple of 4 x 3"]),
        (json.dumps(ZERO), 7, ["no multiple of 4 x 7"]),
        (json.dumps(ZERO | {"fp16": {"enabled": True}}), 8, ["both enabled"]),
        ("[training]\nseq_len = ", 8, ["not TOML"]),
        (TITAN.replace("= 8\nseq", "= 0\nseq").replace('"full"', '"some"'), 64,
         ["training.local_batch_size = 0", "may be none, selective, full"]),
        (TITAN, 60, ["does not divide the world of 60"]),
        (TITAN.replace("-1", "16"), 64, ["need 128 GPUs, but it is started on 64"]),
        ("kind: PyTorchJob\nspec: [", None, ["not YAML"]),
        ("kind: PyTorchJob\nspec: {}\n", None, ["pytorchReplicaSpecs is missing"]),
        ("kind: PyTorchJob\nspec:\n  nprocPerNode: 8\n  pytorchReplicaSpecs: {Master: {replicas: x}}\n", None,
         ["replicas = 'x'", "no container starts"]),
    ],
)  # fmt: skip
def test_broken_files(podsim: Run, tmp_path: Path, text: str, gpus: int | None, words: list[str]) -> None:
    (tmp_path / "file").write_text(text)
    result = podsim("launch", "--read", tmp_path / "file", *(("--gpus", gpus) if gpus else ()))
    assert result.exit_code == 2, result.stdout
    assert result.stdout == ""
    assert len(result.stderr) < 3000
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["give MODEL and --on"]),
        (("gpt2",), ["give MODEL and --on"]),
        (("gpt2", "--on", "selene", "--for", "spiral"), ["unknown tool 'spiral'", "slurm"]),
        (("gpt2", "--read", "absent"), ["no such file"]),
        (("gpt2", "--read", "absent", "--tp", "4"), ["leave out --tp"]),
        (("--read", "x", "--for", "spiral"), ["no such file"]),
        (("gpt2", "--on", "dgx-a100:1", "--for", "deepspeed", "--sequence-parallel", "--tp", "2", "--recompute",
          "selective"), ["DeepSpeed: sequence_parallel", "DeepSpeed: recompute=selective"]),
        (("gpt2", "--on", "dgx-a100:1", "--for", "torchtitan", "--zero", "1"),
         ["none of its models", "zero may be 0, 2, 3"]),
        (("gpt2", "--on", "dgx-a100:1", "--for", "torchtitan", "--software", "megatron-core"),
         ["is not what torchtitan"]),
        (("gpt2", "--on", "dgx-a100:1", "--for", "slurm", "--mount", "data"), ["expected /SOURCE:/TARGET"]),
        (("gpt2", "--on", "dgx-a100:1", "--for", "slurm", "--time-limit", "4 m"), ["time limit"]),
        (("gpt2", "--on", "dgx-a100:1", "--for", "slurm", "--partition", "a\nrm -rf /"), [r"--partition 'a\nrm -rf /'"]),
        (("gpt2", "--on", "dgx-a100:1", "--for", "slurm", "--partition", "a --wrap=b"), ["letters, digits"]),
        (("gpt2", "--on", "dgx-a100:1", "--for", "slurm", "--partition", "a#b"), ["letters, digits"]),
        *(
            (("gpt2", "--on", "dgx-a100:1", "--for", tool, "--partition", "a"), ["has none", "--for slurm"])
            for tool in ("kubernetes", "torchrun", "megatron")
        ),
        (("gpt2", "--on", "dgx-a100:1", "--for", "slurm", "--mount", "/a\n:/b"), ["line break"]),
        (("gpt2", "--on", "dgx-a100:1", "--for", "slurm", "--image", "a\nb"), ["named without spaces"]),
        (("gpt2", "--on", "dgx-a100:1", "--tp", "5"), ["tp"]),
    ],
)  # fmt: skip
def test_misuse(podsim: Run, arguments: tuple[str, ...], words: list[str]) -> None:
    result = podsim("launch", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    for word in words:
        assert word in result.stderr


BOMB = "\n".join([
    "kind: PyTorchJob", "a0: &a0 [x, x, x, x, x, x, x, x, x]",
    *(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 9)),
    "spec: {pytorchReplicaSpecs: {Master: {replicas: *a8}}}",
])  # fmt: skip
"""430 million values, where aliases are followed"""


@pytest.mark.parametrize("text", [BOMB, "kind: PyTorchJob\nspec: &a {pytorchReplicaSpecs: {Master: *a}}"])
def test_nested_aliases_are_refused_before_they_take_memory(podsim: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "bomb.yaml").write_text(text)
    tracemalloc.start()
    try:
        result = podsim("launch", "--read", tmp_path / "bomb.yaml")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.exit_code == 2
    assert "not YAML" in result.stderr
    assert "alias" in result.stderr
    assert most < 50e6


def test_another_model_than_the_command_has(podsim: Run, tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(SCRIPT)
    result = podsim("launch", "gpt3-175b", "--read", tmp_path / "train.sh", "--on", "selene")
    assert result.exit_code == 2
    assert "layers=24, but gpt3-175b has 96" in result.stderr


def test_a_binary_file_and_a_huge_one(podsim: Run, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    assert "not UTF-8" in podsim("launch", "--read", tmp_path / "binary").stderr
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(50_000_000)
    assert "larger than 1 MiB" in podsim("launch", "--read", tmp_path / "huge").stderr
    bomb = "A=xxxxxxxx\n" + "A=($A $A)\n" * 64 + "torchrun $A train.py"
    (tmp_path / "bomb").write_text(bomb.replace("($A $A)", '("${A[@]}" "${A[@]}")'))
    (tmp_path / "long").write_text("A=xxxxxxxx\n" + 'A="$A$A"\n' * 64)
    assert "a word of more than" in podsim("launch", "--read", tmp_path / "long").stderr
    assert "more than 200,000 words" in podsim("launch", "--read", tmp_path / "bomb").stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a 'b c' \"d $X e\" f\\ g", [["a", "b c", "d 1 e", "f g"]]),
        ("A=2; B=$((A*3+1))\necho $B ${C:-no} $D", [["echo", "7", "no", "$D"]]),
        ("L=(a 'b c')\nL+=(d)\nrun \"${L[@]}\" ${L[*]}", [["run", "a", "b c", "d", "a", "b", "c", "d"]]),
        ("one | two && three # four", [["one"], ["two"], ["three"]]),
        ("image=nvcr.io#x\nrun $image#y 2>/dev/null z", [["run", "nvcr.io#x#y", "z"]]),
        ("run $(hostname -f) `date` $((1/0))", [["run", "$(hostname -f)", "`date`", "$((1/0))"]]),
    ],
)
def test_shell(text: str, words: list[list[str]]) -> None:
    assert commands(text, {"X": "1"}) == words


@settings(max_examples=150, deadline=None)
@given(
    text=st.text(alphabet="ab $(){}[]\"'\\\n#=-1:,.@*|;<>&`", max_size=80), tool=st.sampled_from(["", *TOOLS])
)
def test_no_text_breaks_a_reader(text: str, tool: str) -> None:
    for body in (text, f"#SBATCH {text}\ntorchrun {text} pretrain_gpt.py {BASE}{text}"):
        try:
            read(body, tool=tool, gpus=8)
        except PodsimError as error:
            message = str(error)
            assert message


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2*(3+NODES)", 14), ("$NODES*${GPUS}", 32), ("17/5", 3), ("17%5", 2), ("7-9", -2), ("-NODES", -4),
        ("1+UNKNOWN", None), ("1.5", None), ("2**3", None), ("1/0", None), ("f(1)", None), ("1" * 201, None),
    ],
)  # fmt: skip
def test_arithmetic_of_a_shell(text: str, number: int | None) -> None:
    assert _arithmetic(text, {"NODES": ["4"], "GPUS": ["8"]}) == number


def test_keys_of_a_yaml_recipe() -> None:
    assert _yaml_keys("model:\n  layers: 2\ntrain:\n  steps: 5\n") == {"model.layers": 2, "train.steps": 5}
    for text, problem in (
        ("model: [", "not YAML"),
        ("- 1", "expected one table"),
        ("a: 1\n---\nb: 2", "expected one table"),
    ):
        with pytest.raises(PodsimError, match=problem):
            _yaml_keys(text)
