"""Hugging Face accelerate: a plan as the YAML of `accelerate launch --config_file`, with FSDP 2, and read back.

Batch, sequence and attention belong to the training script. Source: accelerate 1.15, commands/config/config_args.py,
utils/launch.py, parallelism_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from podsim.launching.job import NO_OFFLOAD, Job
from podsim.launching.key_table import Key, KeyedTool
from podsim.launching.tool_limits import Limits, is_unsharded, is_waiting

_FSDP, _CONFIG = "fsdp_config.fsdp_", "parallelism_config.parallelism_config_"
_SHARDED = ("zero", (2, 3))


def _always(job: Job) -> Mapping[str, object]:
    """Keys that every file has: who meets where, and how FSDP wraps layers."""
    several = {"main_process_ip": "HEAD_NODE", "main_process_port": 29500} if job.nodes > 1 else {}
    keys: dict[str, object] = {
        "compute_environment": "LOCAL_MACHINE", "debug": False, "downcast_bf16": "no", "num_machines": job.nodes,
        "machine_rank": 0, "rdzv_backend": "c10d" if job.nodes > 1 else "static", "same_network": True, **several,
    }  # fmt: skip
    if int(job.plan.zero):
        keys |= {
            f"{_FSDP}version": 2, f"{_FSDP}auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            f"{_FSDP}state_dict_type": "SHARDED_STATE_DICT", f"{_FSDP}cpu_ram_efficient_loading": True,
            f"{_FSDP}offload_params": False,
        }  # fmt: skip
    return keys


LIMITS = Limits(
    title="accelerate",
    software=("llm-foundry-2023", "*"),
    can={
        "pp": (1,), "ep": (1,), "zero": (0, 2, 3), "recompute": ("none", "full"), "recompute_layers": (0,),
        "schedule": ("1f1b",), "precision": ("bf16", "fp16", "fp32", "fp8"), "optimizer_precision": ("fp32",),
        "sequence_parallel": (False,), "overlap_tp": (False,),
    },
    rules=(
        (is_waiting, "overlap_grad or overlap_param off: it always overlaps both"),
        (is_unsharded, "zero over one rank: it shards over two or more; zero may be 0"),
        (lambda plan, model: int(plan.zero) == 0 and int(plan.tp) * int(plan.cp) > 1,
         "zero=0 with tp or cp: without FSDP it has data parallelism only; zero may be 2, 3"),
        (lambda plan, model: int(plan.shard) % int(plan.cp) != 0, "shard is no multiple of cp, whose ranks always shard"),
        (lambda plan, model: int(plan.zero) == 0 and plan.describe()["recompute"] != "none",
         "recompute with zero=0: it is a setting of FSDP here; zero may be 2, 3"),
    ),
)  # fmt: skip
TOOL = KeyedTool(
    limits=LIMITS,
    keys=(
        Key(path="distributed_type", value="zero",
            words=((3, "FSDP"), (2, "FSDP"), (0, "MULTI_GPU"), (0, "NO"), (0, "MULTI_CPU"))),
        Key(path=f"{_FSDP}sharding_strategy", value="zero", only_read=True,
            words=((3, "FULL_SHARD"), (2, "SHARD_GRAD_OP"), (3, "HYBRID_SHARD"), (2, "HYBRID_SHARD_ZERO2"),
                   (0, "NO_SHARD"), (3, 1), (2, 2), (0, 3), (3, 4), (2, 5))),
        Key(path=f"{_FSDP}reshard_after_forward", value="zero", when=_SHARDED,
            words=((3, True), (2, False), (3, "FULL_SHARD"), (2, "SHARD_GRAD_OP"), (0, "NO_SHARD"))),
        Key(path=f"{_FSDP}activation_checkpointing", value="recompute", when=_SHARDED, plain="none",
            words=(("full", True), ("none", False))),
        Key(path="mixed_precision", value="precision", plain="fp32",
            words=(("fp32", "no"), ("bf16", "bf16"), ("fp16", "fp16"), ("fp8", "fp8"))),
        Key(path="num_processes", value="gpus"),
        Key(path=f"{_CONFIG}dp_replicate_size", value="replicate", when=_SHARDED),
        Key(path=f"{_CONFIG}dp_shard_size", value="shard", when=_SHARDED),
        Key(path=f"{_CONFIG}tp_size", value="tp", when=_SHARDED, plain=1),
        Key(path=f"{_CONFIG}cp_size", value="cp", when=_SHARDED, plain=1),
    ),
    always=_always,
    uncounted={f"{_FSDP}offload_params": NO_OFFLOAD},
    refused={"deepspeed_config": "read the DeepSpeed file itself",
             "megatron_lm_config": "read the Megatron-LM command itself"},
    silent=("the training script sets micro-batch, accumulation, sequence and attention",),
)  # fmt: skip


def notes(job: Job) -> list[str]:
    """What a user has to look over."""
    return [
        "start it on every node with accelerate launch --config_file FILE --machine_rank N --main_process_ip HEAD_NODE "
        "train.py",
        f"the training script takes {job.plan.micro_batch} sequences of {job.plan.length(job.model)} tokens, "
        f"{job.plan.micro_batches} micro-batches a step, and {'fused' if job.plan.flash else 'unfused'} attention",
    ]
