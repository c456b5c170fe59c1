"""axolotl: a plan as its YAML, and read back.

Source: axolotl 0.21, utils/schemas/config.py, fsdp.py, training.py, model.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from podsim.launching.accelerate import LIMITS as ACCELERATE
from podsim.launching.job import NO_OFFLOAD, Job
from podsim.launching.key_table import Key, KeyedTool
from podsim.launching.tool_limits import Limits

_SHARDED = ("zero", (2, 3))
_ADAPTED = ("adapter", ("lora", "qlora"))


def _always(job: Job) -> Mapping[str, object]:
    """Keys that every file has: a model, data and steps to replace by the user's."""
    prefers = job.model.training.startswith("dpo")
    packed = not prefers and (int(job.plan.cp) == 1 or int(job.plan.micro_batch) == 1)  # its own two rules
    keys: dict[str, object] = {
        "base_model": str(job.names.get("model", job.model.name)), "sample_packing": packed, "pad_to_sequence_len": True,
        "datasets": [{"path": "mhenrichsen/alpaca_2k_test", "type": "alpaca"}], "val_set_size": 0.0, "max_steps": 100,
        "optimizer": "adamw_torch_fused", "lr_scheduler": "cosine", "learning_rate": 1e-5, "output_dir": "./outputs",
    }  # fmt: skip
    kind, rank = job.adapter
    if kind:
        keys |= {"lora_alpha": 2 * rank, "lora_dropout": 0.0, "lora_target_linear": True}
        keys |= {"load_in_4bit": True} if kind == "qlora" else {}
    if job.model.training.startswith("dpo"):
        keys |= {"rl": "dpo"}
    if int(job.plan.zero):
        keys |= {
            "fsdp_version": 2, "fsdp_config.auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_config.state_dict_type": "SHARDED_STATE_DICT", "fsdp_config.offload_params": False,
        }  # fmt: skip
    return keys


TOOL = KeyedTool(
    limits=Limits(
        title="axolotl",
        software=ACCELERATE.software,
        can=ACCELERATE.can,
        rules=(
            *ACCELERATE.rules[:-1],
            (lambda plan, model: int(plan.cp) > 1 and not plan.flash, "cp without flash: its ring attention is fused"),
        ),
    ),
    keys=(
        Key(path="micro_batch_size", value="micro_batch", plain=1),
        Key(path="gradient_accumulation_steps", value="steps", plain=1),
        Key(path="sequence_len", value="sequence", plain=512),
        Key(path="fsdp_version", value="zero", only_read=True, words=((3, 2), (3, 1))),
        Key(path="fsdp_config.reshard_after_forward", value="zero", when=_SHARDED, words=((3, True), (2, False)),
            also=("fsdp_config.fsdp_reshard_after_forward",)),
        Key(path="deepspeed", value="zero", only_read=True,
            words=tuple((stage, f"deepspeed_configs/zero{stage}{more}.json") for stage in (1, 2, 3)
                        for more in ("", "_bf16", "_torch_compile", "_bf16_cpuoffload_all", "_bf16_cpuoffload_params"))),
        Key(path="dp_shard_size", value="shard", when=_SHARDED),
        Key(path="dp_replicate_size", value="replicate", when=_SHARDED),
        Key(path="tensor_parallel_size", value="tp", when=_SHARDED, plain=1),
        Key(path="context_parallel_size", value="cp", when=_SHARDED, plain=1, also=("sequence_parallel_degree",)),
        Key(path="gradient_checkpointing", value="recompute", words=(("full", True), ("none", False)), plain="none",
            also=("activation_checkpointing", "fsdp_config.activation_checkpointing")),
        Key(path="attn_implementation", value="flash", plain=False,
            words=((True, "flash_attention_2"), (False, "eager"), (True, "flash_attention_3"), (True, "sdpa"),
                   (True, "flex_attention"), (True, "xformers"))),
        Key(path="flash_attention", value="flash", only_read=True, words=((True, True), (False, False))),
        Key(path="bf16", value="precision", when=("precision", ("bf16", "fp8")),
            words=(("bf16", True), ("fp8", True), ("bf16", "auto"), ("bf16", "full"), ("fp32", False)), plain="bf16"),
        Key(path="fp16", value="precision", when=("precision", ("fp16",)), words=(("fp16", True), ("", False))),
        Key(path="fp8", value="precision", when=("precision", ("fp8",)), words=(("fp8", True), ("", False))),
        Key(path="adapter", value="adapter", when=_ADAPTED, words=(("lora", "lora"), ("qlora", "qlora"))),
        Key(path="lora_r", value="rank", when=_ADAPTED),
        Key(path="lora_target_linear", value="all_linear", only_read=True, words=((True, True), (False, False))),
        Key(path="float32", value="precision", when=("precision", ("fp32",)), words=(("fp32", True), ("", False))),
    ),
    always=_always,
    model="base_model",
    uncounted={"fsdp_config.offload_params": NO_OFFLOAD, "fsdp_config.fsdp_offload_params": NO_OFFLOAD,
               "activation_offloading": "activations are kept in the GPUs' memory",
               "layer_offloading": "weights are kept in the GPUs' memory",
               "batch_size": "the batch is micro-batch x accumulation x ranks"},
)  # fmt: skip


def notes(job: Job) -> list[str]:
    """What a user has to look over."""
    return [
        f"start it on every node with axolotl train FILE --launcher torchrun -- --nnodes {job.nodes} "
        f"--nproc-per-node {job.per_node}",
        "trains on a small public data set for 100 steps: replace base_model, datasets and max_steps by yours",
    ]
