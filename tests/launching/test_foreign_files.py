"""Files of accelerate, axolotl, MaxText and Megatron-Bridge as people have them, old spellings included."""

from __future__ import annotations

import pytest

from podsim.errors import PlanError, PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.launching.job import Job, Reading
from podsim.launching.tools import TOOLS, emit, guess, read
from podsim.training.plan import Plan
from podsim.workload.catalog import load_model

FSDP1 = """
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 2
num_processes: 16
fsdp_config:
  fsdp_sharding_strategy: FULL_SHARD
  fsdp_backward_prefetch: BACKWARD_PRE
  fsdp_use_orig_params: true
"""
AXOLOTL = """
base_model: NousResearch/Llama-3.2-1B
micro_batch_size: 2
gradient_accumulation_steps: 4
sequence_len: 4096
flash_attention: true
bf16: auto
gradient_checkpointing: true
sequence_parallel_degree: 2
dp_shard_size: 4
fsdp_version: 2
fsdp_config:
  reshard_after_forward: true
adapter: lora
"""
MAXTEXT = """
base_config: base.yml
per_device_batch_size: 4
ici_fsdp_parallelism: -1
ici_tensor_parallelism: 2
max_target_length: 8192
remat_policy: minimal
quantization: te_fp8_delayedscaling
"""
TITAN = """
from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer

def llama3_8b_long() -> Trainer.Config:
    model_spec = model_registry("8B")
    config = Trainer.Config(
        model_spec=model_spec,
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=16384, max_context_length=8192),
        parallelism=ParallelismConfig(data_parallel_shard_degree=8),
        activation_checkpoint=FullAC.Config(),
    )
    config.parallelism.tensor_parallel_degree = 2
    return config
"""
BRIDGE = """
from megatron.bridge.recipes.llama import llama3_70b_pretrain_config

def mine():
    cfg = llama3_70b_pretrain_config()
    cfg.model.tensor_model_parallel_size = 4
    cfg.model.pipeline_model_parallel_size = 4
    cfg.model.virtual_pipeline_model_parallel_size = 5
    cfg.model.context_parallel_size = 2
    cfg.model.sequence_parallel = True
    cfg.train.micro_batch_size = 1
    cfg.train.global_batch_size = 256
    cfg.mixed_precision = "bf16_with_fp8_current_scaling_mixed"
    return cfg
"""
FILES = {
    "accelerate": FSDP1,
    "axolotl": AXOLOTL,
    "maxtext": MAXTEXT,
    "nemo": BRIDGE,
}
MEANT = {
    "accelerate": {"dp": 16, "zero": 3, "precision": "bf16", "recompute": "none"},
    "axolotl": {
        "dp": 4,
        "cp": 2,
        "zero": 3,
        "micro_batch": 2,
        "global_batch": 32,
        "sequence": 4096,
        "recompute": "full",
    },
    "maxtext": {"dp": 8, "tp": 2, "zero": 3, "micro_batch": 8, "precision": "fp8", "recompute": "selective"},
    "nemo": {
        "tp": 4,
        "pp": 4,
        "cp": 2,
        "dp": 2,
        "virtual_stages": 5,
        "global_batch": 256,
        "precision": "fp8",
    },
}
GPUS = {"maxtext": 16, "nemo": 64}


def reading_of(tool: str) -> Reading:
    return read(FILES[tool], gpus=GPUS.get(tool))


@pytest.mark.parametrize("tool", FILES)
def test_a_file_of_others_is_understood(tool: str) -> None:
    assert guess(FILES[tool]) == tool
    plan = reading_of(tool).plan.describe()
    assert {name: plan[name] for name in MEANT[tool]} == MEANT[tool]


@pytest.mark.parametrize(
    ("tool", "line", "words"),
    [
        ("accelerate", "  fsdp_reshard_after_forward: sometimes", "may be True, False"),
        ("axolotl", "tensor_parallel_size: two", "must be a number above 0"),
        ("axolotl", "deepspeed: ds.json", "may be deepspeed_configs/zero1.json"),
        ("maxtext", "dtype: int4", "may be bfloat16"),
        ("nemo", "    cfg.model.tensor_model_parallel_size = 'four'", "no whole number"),
    ],
)
def test_what_no_plan_has_is_refused(tool: str, line: str, words: str) -> None:
    text = (
        FILES[tool].replace("    return c", f"{line}\n    return c")
        if "return c" in FILES[tool]
        else FILES[tool] + line
    )
    with pytest.raises(PlanError, match=words):
        read(text, gpus=GPUS.get(tool))


@pytest.mark.parametrize(
    "text",
    ["a: &a [*a]", "from megatron.bridge import x\n" + "f(" * 3000, "base_model: 1\nmicro_batch_size: [\n"],
)
def test_broken_files_are_errors(text: str) -> None:
    with pytest.raises(PodsimError):
        read(text)


@pytest.mark.parametrize("tool", ["", "torchtitan"])
def test_torchtitans_python_is_refused_with_what_works(tool: str) -> None:
    with pytest.raises(PodsimError, match="give its TOML file, or its command"):
        read(TITAN, tool=tool)


NASTY = "x\"\n$(touch /tmp/owned)\n'; rm -rf ~ #"


@pytest.mark.parametrize("tool", TOOLS)
def test_text_of_a_user_stays_text(tool: str) -> None:
    """Names of models and clusters cannot end the comment, or a string, that they stand in."""
    plan = (
        Plan(dp=8, global_batch=8, software="torchtitan-2024")
        if "titan" in tool
        else Plan(dp=8, global_batch=8)
    )
    model = load_model("llama-3.1-8b")
    job = Job(model=model, cluster=load_cluster("dgx-h100:1"), plan=plan, names={"model": NASTY, "on": NASTY})
    reading = read(emit(job, tool).text, layers=32)
    assert reading.names == {"model": NASTY, "on": NASTY}
    assert reading.plan == plan.having({"sequence": model.sequence})
